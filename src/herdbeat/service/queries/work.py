"""Work items, found by what a person writes."""

from herdbeat.domain.work_claim import WorkClaimView
from herdbeat.errors import NotFound, truncate_for_message
from herdbeat.store.reader import Reader

MAX_SEARCHED_CLAIMS = 10_000


def find_work_claim(reader: Reader, item: str) -> WorkClaimView:
    """Return the newest claim of an item. Raises NotFound."""
    views = reader.work_claims(limit=MAX_SEARCHED_CLAIMS)
    found = next((view for view in views if view.claim.item == item), None)
    if found is None:
        message = f'No run has taken an item "{truncate_for_message(item)}".'
        raise NotFound(message, hint="The items that were taken: herdbeat work --all")
    return found
