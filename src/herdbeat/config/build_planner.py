"""The planner of a fleet from its block, and what of it has no effect."""

from herdbeat.config.diagnostics import Diagnostics, find_closest_match
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.provenance import SectionReader
from herdbeat.config.schema import planner as keys
from herdbeat.domain.agent_run import find_price
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.planner import DEFAULT_PLANNER_URLS, PlannerProvider, PlannerSettings
from herdbeat.error_codes import Code
from herdbeat.errors import did_you_mean_suffix


def build_planner(settings: SectionReader) -> PlannerSettings | None:
    """Return the planner of a validated fleet file; None if it has none."""
    if not isinstance(settings.node.find((keys.PLANNER.name,)).value, dict):
        return None
    block = settings.section(keys.PLANNER)
    model, runtime = block.get_optional(keys.PLANNER_MODEL), block.get_optional(keys.PLANNER_RUNTIME)
    if (model is None) == (runtime is None):
        return None  # reported by the check of the block
    provider = PlannerProvider(block.get(keys.PLANNER_PROVIDER))
    variable = "ANTHROPIC_API_KEY" if provider is PlannerProvider.ANTHROPIC else "OPENAI_API_KEY"
    return PlannerSettings(
        provider=PlannerProvider.AGENT if runtime else provider,
        model=model or "",
        base_url="" if runtime else block.get_optional(keys.PLANNER_BASE_URL) or DEFAULT_PLANNER_URLS[provider],
        api_key_env="" if runtime else block.get_optional(keys.PLANNER_API_KEY_ENV) or variable,
        runtime=runtime or "",
        groups=tuple(block.get_optional(keys.PLANNER_GROUPS) or ()),
        max_turns=block.get(keys.PLANNER_MAX_TURNS),
        timeout=block.get(keys.PLANNER_TIMEOUT),
        sessions_per_day=block.get(keys.PLANNER_SESSIONS),
        tokens_per_day=block.get_optional(keys.PLANNER_TOKENS),
        usd_per_day=block.get_optional(keys.PLANNER_USD),
    )


def warn_planner(fleet: Fleet, planner: PlannerSettings, tree: ConfigNode, diagnostics: Diagnostics) -> None:
    """Warn of groups without schedules, of a CLI that keeps some of its tools, and of a budget that nothing counts."""
    block = tree.find((keys.PLANNER.name,))
    _warn_empty_groups(fleet, planner, block, diagnostics)
    if planner.runtime:
        _warn_tools(planner, block, diagnostics)
    if planner.usd_per_day is not None and not _is_cost_known(fleet, planner):
        message = "The budget in dollars of the planner has no effect: the price of its model is unknown."
        hint = "Set tokens_per_day, add the model under prices:, or install genai-prices."
        diagnostics.warning(Code.UNKNOWN_COST, message, block.find((keys.PLANNER_USD.name,)).location, hint)


def _warn_empty_groups(fleet: Fleet, planner: PlannerSettings, block: ConfigNode, diagnostics: Diagnostics) -> None:
    known = list(dict.fromkeys(group for each in fleet.schedules if (group := each.policies.group)))
    if not known:
        message = "No schedule has a group, and the planner looks only at groups."
        hint = "Add group: NAME to the schedules that it may look at."
        diagnostics.warning(Code.NOT_SERVED, message, block.location, hint)
        return
    for name in planner.groups:
        if name not in known:
            message = f'No schedule is in the group "{name}"{did_you_mean_suffix(find_closest_match(name, known))}'
            hint = f"Groups of this fleet: {', '.join(known)}."
            diagnostics.warning(Code.NOT_SERVED, message, block.find((keys.PLANNER_GROUPS.name,)).location, hint)


def _warn_tools(planner: PlannerSettings, block: ConfigNode, diagnostics: Diagnostics) -> None:
    from herdbeat.runners.agents.presets import find_preset  # noqa: PLC0415 - only for such a planner

    preset = find_preset(planner.runtime, {})
    if preset is not None and "tools" not in preset.options:
        message = f"{preset.name} cannot be run without tools: a response can make it use those that read."
        hint = "Use runtime: claude, or a model of an API."
        diagnostics.warning(Code.NOT_SERVED, message, block.find((keys.PLANNER_RUNTIME.name,)).location, hint)


def _is_cost_known(fleet: Fleet, planner: PlannerSettings) -> bool:
    from herdbeat.runners.agents.presets import find_preset  # noqa: PLC0415 - only for such a planner
    from herdbeat.runners.agents.price_package import is_installed  # noqa: PLC0415 - as above

    preset = find_preset(planner.runtime, {}) if planner.runtime else None
    if preset is not None and (preset.reports_usd or not preset.reports_tokens):
        return preset.reports_usd
    # A budget that has tokens too is kept in tokens.
    has_price = is_installed() or find_price(fleet.prices, planner.model) is not None
    return has_price or planner.tokens_per_day is not None
