"""Opens the planner: its model or agent, with the key from the environment of the node."""

from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import timedelta, tzinfo

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.planner import PlannerProvider, PlannerSettings
from herdbeat.domain.run import Outcome
from herdbeat.domain.target import AgentSpec, Target, ToolMode, ToolPolicy
from herdbeat.redaction import register_secrets
from herdbeat.runners.agents.price_package import estimate_price
from herdbeat.scheduler.timers import Timer
from herdbeat.service.planner.worker import AskAgent, PlannerWorker
from herdbeat.store.location import StoreHandle, open_reader
from herdbeat.threads import host_lookup

AGENT_NAME = "planner"
_STOP_MARGIN = timedelta(seconds=30)


async def open_planner(
    fleet: Fleet, store: StoreHandle, timer: Timer, environ: Mapping[str, str], zone: tzinfo, stack: AsyncExitStack
) -> PlannerWorker:
    """Return the worker of a fleet that has a planner. The stack closes what it opens."""
    settings = fleet.planner
    assert settings is not None
    worker = PlannerWorker(
        store=store,
        reader=stack.enter_context(closing(open_reader(store.location))),
        timer=timer,
        fleet=fleet,
        settings=settings,
        estimate_price=estimate_price,
    )
    if settings.provider is PlannerProvider.AGENT:
        worker.ask_agent = _build_agent(fleet, settings, environ, timer, zone)
        return worker
    import aiohttp  # noqa: PLC0415 -- few fleets have a planner

    from herdbeat.planner.model import AnthropicModel, ModelAddress, OpenAiModel  # noqa: PLC0415

    key = environ.get(settings.api_key_env, "")
    register_secrets([key] if key else [])
    address = ModelAddress(model=settings.model, base_url=settings.base_url, api_key=key)
    connector = aiohttp.TCPConnector(resolver=host_lookup())
    opened = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
    session = await stack.enter_async_context(opened)
    is_anthropic = settings.provider is PlannerProvider.ANTHROPIC
    worker.model = AnthropicModel(session, address) if is_anthropic else OpenAiModel(session, address)
    return worker


def _build_agent(
    fleet: Fleet, settings: PlannerSettings, environ: Mapping[str, str], timer: Timer, zone: tzinfo
) -> AskAgent:
    """The CLI gets no tools: a response that it reads can make it say something, and do nothing."""
    policy = ToolPolicy(mode=ToolMode.DENY_ALL)
    spec = AgentSpec(runtime=settings.runtime, working_directory=".", tool_policy=policy)
    alone = replace(fleet, targets=(Target(name=AGENT_NAME, spec=spec),), schedules=())

    async def ask(prompt: str) -> Outcome:
        from herdbeat.service.agent_trial import try_agent  # noqa: PLC0415 -- loads the runners of agents

        # The worker's own timeout ends it first; this one only must not be shorter.
        max_time = settings.timeout + _STOP_MARGIN
        trial = await try_agent(alone, AGENT_NAME, environ, timer, zone, prompt=prompt, max_time=max_time)
        return trial.outcome

    return ask
