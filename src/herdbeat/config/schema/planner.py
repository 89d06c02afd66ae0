"""The keys of the planner."""

from herdbeat.config.diagnostics import Diagnostics, find_closest_match
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import DURATION, NAME, TEXT, URL, VARIABLE_NAME
from herdbeat.config.schema.runtimes import BUILTIN_RUNTIMES, HERDCTL_RUNTIMES
from herdbeat.config.schema.table import Field, ListOf, Table
from herdbeat.config.schema.types import Choice, Integer, Number
from herdbeat.error_codes import Code
from herdbeat.errors import did_you_mean_suffix


class PlannerBlock(Table):
    """It asks either the `model` of an API, or the CLI of a `runtime`."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        if not isinstance(node.value, dict):
            return
        if "model" not in node.value and "runtime" not in node.value:
            hint = "Add model: for an API, or runtime: for the CLI of an agent, such as claude."
            diagnostics.error(Code.MISSING_KEY, 'A planner needs "model" or "runtime".', node.location, hint)
        if "runtime" in node.value:
            self._check_runtime(node.find(("runtime",)), diagnostics)
            for name, child in node.items():
                if name in ("model", "provider", "base_url", "api_key_env"):
                    message = f'"{name}" is for an API, and "runtime" asks the CLI of an agent.'
                    diagnostics.error(Code.CONFLICTING_KEYS, message, child.report_location, "Remove one of them.")

    def _check_runtime(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        """The runtimes that a fleet file defines are for its agents."""
        name, known = node.value, BUILTIN_RUNTIMES[:-1]
        if isinstance(name, str) and not node.undefined_variable and name not in (*known, *HERDCTL_RUNTIMES):
            message = f'runtime cannot be "{name}"{did_you_mean_suffix(find_closest_match(name, known))}'
            hint = f"Write one of {', '.join(known)}."
            diagnostics.error(Code.INVALID_VALUE, message, node.location, hint)


PLANNER_MODEL = Field("model", TEXT, "Name of the model, for an API.", unset="the CLI of `runtime` decides")
PLANNER_PROVIDER = Field(
    "provider",
    Choice(("openai", "anthropic")),
    "API of the model: `openai` is what most other servers speak too.",
    "openai",
)
PLANNER_BASE_URL = Field("base_url", URL, "Address of the API.", unset="that of the provider")
PLANNER_API_KEY_ENV = Field(
    "api_key_env", VARIABLE_NAME, "Variable with the key of the API.", unset="OPENAI_API_KEY or ANTHROPIC_API_KEY"
)
PLANNER_RUNTIME = Field("runtime", NAME, "Ask the CLI of this agent runtime instead of an API.", unset="none")
PLANNER_GROUPS = Field("groups", ListOf(NAME), "Groups of schedules to analyse.", unset="all groups")
PLANNER_MAX_TURNS = Field("max_turns", Integer(1, 100), "Turns of one session.", "12")
PLANNER_TIMEOUT = Field("timeout", DURATION, "How long one session may take.", "2m")
PLANNER_SESSIONS = Field("sessions_per_day", Integer(1, 10_000), "Sessions of one day.", "100")
PLANNER_TOKENS = Field("tokens_per_day", Integer(1), "Tokens of one day.", unset="unlimited")
PLANNER_USD = Field("usd_per_day", Number(0, 1_000_000), "Dollars of one day, as estimated.", unset="unlimited")
PLANNER = Field(
    "planner",
    PlannerBlock(
        "A planner block",
        PLANNER_MODEL,
        PLANNER_PROVIDER,
        PLANNER_BASE_URL,
        PLANNER_API_KEY_ENV,
        PLANNER_RUNTIME,
        PLANNER_GROUPS,
        PLANNER_MAX_TURNS,
        PLANNER_TIMEOUT,
        PLANNER_SESSIONS,
        PLANNER_TOKENS,
        PLANNER_USD,
    ),
    "A model that looks at groups of schedules from time to time, and proposes other times within their limits.",
)
