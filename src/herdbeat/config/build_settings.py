"""The settings of a fleet file beside its targets: server, channels, prices, planner, engines."""

import os
from collections.abc import Sequence
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics, find_closest_match
from herdbeat.config.nodes import ConfigNode, get_mapping_data
from herdbeat.config.provenance import SectionReader, build_value
from herdbeat.config.schema import executors as executor_keys
from herdbeat.config.schema import fleet as keys
from herdbeat.config.schema import planner as planner_keys
from herdbeat.config.sources import FleetFile, TargetSource
from herdbeat.domain.agent_run import ModelPrice, find_price
from herdbeat.domain.executor import EngineAccess, ExecutorKind, ExecutorSettings, KubernetesSettings, RaySettings
from herdbeat.domain.fleet import DeadMan, Fleet, ProxyAuth, ServerSettings
from herdbeat.domain.planner import DEFAULT_PLANNER_URLS, PlannerProvider, PlannerSettings
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, CommandSpec, TargetSpec
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation, did_you_mean_suffix
from herdbeat.executors.base import find_run_obstacle, find_spec_obstacle


def build_fleet_settings(file: FleetFile, settings: SectionReader) -> Fleet:
    """Return the fleet of a validated file, without its targets and schedules."""
    identity = settings.section(keys.IDENTITY)
    values: dict[str, object] = {
        "name": identity.get(keys.FLEET_NAME, file.path.parent.name or "fleet"),
        "description": identity.get(keys.FLEET_DESCRIPTION, ""),
        "zone": settings.get(keys.TIMEZONE, file.zone.zone, file.zone.origin),
        "store": settings.get(keys.STORE_URL),
        "server": _build_server(settings),
        **settings.read(keys.ENGINE_SETTINGS),
        "notify": _build_notify_channels(settings),
        "dead_man": _build_dead_man(settings),
        "planner": _build_planner(settings) if settings.node.child(planner_keys.PLANNER.name) else None,
        "executors": _build_executors(settings, file.path.parent)
        if settings.node.child(executor_keys.EXECUTORS.name)
        else ExecutorSettings(),
        "prices": _build_prices(settings),
        "home": str(file.path.parent),
    }
    return build_value(Fleet, values | {"targets": (), "schedules": ()})


def _build_server(settings: SectionReader) -> ServerSettings:
    """Return the `server` block, completed by host and port of herdctl's `web` block."""
    web = settings.node.child("web")
    host, port = keys.HOST.get(web), keys.PORT.get(web)
    own = settings.section(keys.SERVER)
    # "localhost" may resolve to an address without a listener; herdctl means the loopback.
    host = None if host in (None, "localhost") else host
    return ServerSettings(
        host=own.get(keys.HOST, host),
        port=own.get(keys.PORT, port),
        base_path=own.get_optional(keys.BASE_PATH) or "",
        public_url=(own.get_optional(keys.PUBLIC_URL) or "").rstrip("/"),
        trusted_proxies=tuple(own.get_optional(keys.TRUSTED_PROXIES) or ()),
        proxy_auth=_build_proxy_auth(own),
        tls_cert=own.get_optional(keys.TLS_CERT) or "",
        tls_key=own.get_optional(keys.TLS_KEY) or "",
    )


def _build_proxy_auth(server: SectionReader) -> ProxyAuth | None:
    child = server.node.child(keys.PROXY_AUTH.name)
    if child is None or not isinstance(child.value, dict):
        return None
    block = server.section(keys.PROXY_AUTH)
    header, addresses = block.get_optional(keys.PROXY_HEADER), block.get_optional(keys.PROXY_FROM)
    if not header or not addresses:
        return None  # reported by the check of the block
    return ProxyAuth(header=header, addresses=tuple(addresses), scope=block.get(keys.PROXY_SCOPE))


def _build_notify_channels(settings: SectionReader) -> dict[str, dict[str, object]]:
    settings.get_optional(keys.NOTIFY)
    channels = get_mapping_data(settings.node, "notify")
    return {name: dict(channel) for name, channel in channels.items() if isinstance(channel, dict)}


def _build_dead_man(settings: SectionReader) -> DeadMan | None:
    child = settings.node.child(keys.DEAD_MAN.name)
    if child is None or not isinstance(child.value, dict):
        return None
    block = settings.section(keys.DEAD_MAN)
    url = block.get_optional(keys.DEAD_MAN_URL)
    return DeadMan(url=url, every=block.get(keys.DEAD_MAN_EVERY)) if url else None


def _build_prices(settings: SectionReader) -> dict[str, ModelPrice]:
    settings.get_optional(keys.PRICES)
    prices = settings.node.child("prices")
    if prices is None or not isinstance(prices.value, dict):
        return {}
    return {model: _build_price(node) for model, node in prices.items()}


def _build_price(node: ConfigNode) -> ModelPrice:
    """Return one entry of `prices`. What is missing in an invalid one is reported elsewhere, and free here."""
    return ModelPrice(
        input=keys.PRICE_INPUT.get(node) or 0.0,
        output=keys.PRICE_OUTPUT.get(node) or 0.0,
        cache_read=keys.PRICE_CACHE_READ.get(node),
        cache_write=keys.PRICE_CACHE_WRITE.get(node),
    )


# The planner.


def _build_planner(settings: SectionReader) -> PlannerSettings | None:
    """Return the planner of a validated fleet file; None if it has none."""
    if not isinstance(settings.node.find((planner_keys.PLANNER.name,)).value, dict):
        return None
    block = settings.section(planner_keys.PLANNER)
    model, runtime = block.get_optional(planner_keys.PLANNER_MODEL), block.get_optional(planner_keys.PLANNER_RUNTIME)
    if (model is None) == (runtime is None):
        return None  # reported by the check of the block
    provider = PlannerProvider(block.get(planner_keys.PLANNER_PROVIDER))
    variable = "ANTHROPIC_API_KEY" if provider is PlannerProvider.ANTHROPIC else "OPENAI_API_KEY"
    return PlannerSettings(
        provider=PlannerProvider.AGENT if runtime else provider,
        model=model or "",
        base_url="" if runtime else block.get_optional(planner_keys.PLANNER_BASE_URL) or DEFAULT_PLANNER_URLS[provider],
        api_key_env="" if runtime else block.get_optional(planner_keys.PLANNER_API_KEY_ENV) or variable,
        runtime=runtime or "",
        groups=tuple(block.get_optional(planner_keys.PLANNER_GROUPS) or ()),
        max_turns=block.get(planner_keys.PLANNER_MAX_TURNS),
        timeout=block.get(planner_keys.PLANNER_TIMEOUT),
        sessions_per_day=block.get(planner_keys.PLANNER_SESSIONS),
        tokens_per_day=block.get_optional(planner_keys.PLANNER_TOKENS),
        usd_per_day=block.get_optional(planner_keys.PLANNER_USD),
    )


def warn_planner(fleet: Fleet, planner: PlannerSettings, tree: ConfigNode, diagnostics: Diagnostics) -> None:
    """Warn of groups without schedules, of a CLI that keeps some of its tools, and of a budget that nothing counts."""
    block = tree.find((planner_keys.PLANNER.name,))
    _warn_empty_groups(fleet, planner, block, diagnostics)
    if planner.runtime:
        _warn_tools(planner, block, diagnostics)
    if planner.usd_per_day is not None and not _is_cost_known(fleet, planner):
        message = "The budget in dollars of the planner has no effect: the price of its model is unknown."
        hint = "Set tokens_per_day, add the model under prices:, or install genai-prices."
        diagnostics.warning(Code.UNKNOWN_COST, message, block.find((planner_keys.PLANNER_USD.name,)).location, hint)


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
            diagnostics.warning(
                Code.NOT_SERVED, message, block.find((planner_keys.PLANNER_GROUPS.name,)).location, hint
            )


def _warn_tools(planner: PlannerSettings, block: ConfigNode, diagnostics: Diagnostics) -> None:
    from herdbeat.runners.agents.presets import find_preset  # noqa: PLC0415 - only for such a planner

    preset = find_preset(planner.runtime, {})
    if preset is not None and "tools" not in preset.options:
        message = f"{preset.name} cannot be run without tools: a response can make it use those that read."
        hint = "Use runtime: claude, or a model of an API."
        diagnostics.warning(Code.NOT_SERVED, message, block.find((planner_keys.PLANNER_RUNTIME.name,)).location, hint)


def _is_cost_known(fleet: Fleet, planner: PlannerSettings) -> bool:
    from herdbeat.runners.agents.presets import find_preset  # noqa: PLC0415 - only for such a planner
    from herdbeat.runners.agents.price_package import is_installed  # noqa: PLC0415 - as above

    preset = find_preset(planner.runtime, {}) if planner.runtime else None
    if preset is not None and (preset.reports_usd or not preset.reports_tokens):
        return preset.reports_usd
    # A budget that has tokens too is kept in tokens.
    has_price = is_installed() or find_price(fleet.prices, planner.model) is not None
    return has_price or planner.tokens_per_day is not None


# Engines.


def _build_executors(settings: SectionReader, folder: Path) -> ExecutorSettings:
    """Return the engines of a validated fleet file in this folder, from which relative paths count."""
    block = settings.section(executor_keys.EXECUTORS)
    return ExecutorSettings(ray=_build_ray(block, folder), kubernetes=_build_kubernetes(block, folder))


def _build_ray(executors: SectionReader, folder: Path) -> RaySettings | None:
    if not _is_written(executors.node, executor_keys.RAY.name):
        return None
    block = executors.section(executor_keys.RAY)
    url, token_file = block.get_optional(executor_keys.RAY_URL), block.get_optional(executor_keys.RAY_TOKEN_FILE)
    if not url or not token_file:
        return None  # reported by the check of the block
    auth_env = block.get_optional(executor_keys.RAY_AUTH_ENV) or ""
    access = _build_access(block)
    # Not made absolute further than that: the file is on the machines of the cluster, not on this one.
    token_file = str(Path(access.folder or folder.absolute()) / token_file)
    return RaySettings(url=url.rstrip("/"), token_file=token_file, auth_env=auth_env, access=access)


def _build_kubernetes(executors: SectionReader, folder: Path) -> KubernetesSettings | None:
    if not _is_written(executors.node, executor_keys.KUBERNETES.name):
        return None
    block = executors.section(executor_keys.KUBERNETES)
    written = block.get_optional(executor_keys.K8S_KUBECONFIG)
    return KubernetesSettings(
        namespace=block.get(executor_keys.K8S_NAMESPACE),
        image=block.get_optional(executor_keys.K8S_IMAGE) or "",
        kubeconfig=str((folder / _expand_home(written)).absolute()) if written else "",
        context=block.get_optional(executor_keys.K8S_CONTEXT) or "",
        access=_build_access(block),
    )


def _build_access(block: SectionReader) -> EngineAccess:
    command = block.get_optional(executor_keys.COMMAND)
    return EngineAccess(
        callback=(block.get_optional(executor_keys.CALLBACK) or "").rstrip("/"),
        command=EngineAccess().command if command is None else tuple(command),
        folder=block.get_optional(executor_keys.FOLDER) or "",
        label=block.get_optional(executor_keys.NODE_LABEL) or "",
        lease=block.get(executor_keys.ENGINE_LEASE),
    )


def _is_written(node: ConfigNode, name: str) -> bool:
    child = node.child(name)
    return child is not None and isinstance(child.value, dict)


def _expand_home(written: str) -> str:
    return str(Path(os.path.expanduser(written)))  # noqa: PTH111 -- Path's own raises without a home


def check_callbacks(fleet: Fleet, tree: ConfigNode, diagnostics: Diagnostics) -> None:
    """Report engines whose runs would report to a public_url in plain text: they refuse that when they start."""
    if not fleet.server.public_url or executor_keys.is_safe_callback(fleet.server.public_url):
        return
    for kind in fleet.executors.kinds:
        access = fleet.executors.access(kind)
        if access is not None and not access.callback:
            message = f"Runs on {kind} would report to server.public_url, across the network in plain text."
            hint = "Make public_url an https address, or set callback."
            where = tree.find((executor_keys.EXECUTORS.name, kind)).location
            diagnostics.error(Code.INVALID_VALUE, message, where, hint)


def check_executor(
    source: TargetSource, spec: TargetSpec, schedules: Sequence[Schedule], diagnostics: Diagnostics
) -> bool:
    """Return whether runs of a target can happen on the engine that it names; report why they cannot."""
    assert isinstance(spec, AgentSpec | CommandSpec)
    errors_before, kind = diagnostics.error_count, spec.executor
    assert kind is not None
    where = source.node.find(("executor",)).report_location
    engine = source.fleet.executors.child(kind) if source.fleet.executors is not None else None
    if engine is None:
        hint = f"Add executors: {{ {kind}: {{ … }} }} to the fleet file, or write executor: local."
        diagnostics.error(Code.MISSING_KEY, f"The fleet has no executors.{kind}.", where, hint)
    elif kind is ExecutorKind.KUBERNETES and not _has_image(spec, engine):
        hint = "Add image to resources, or to executors.kubernetes."
        diagnostics.error(Code.MISSING_KEY, "A run on Kubernetes needs an image.", where, hint)
    if obstacle := find_spec_obstacle(spec, kind):
        _report_obstacle(obstacle, kind, where, diagnostics)
    for schedule in schedules:
        obstacle = find_run_obstacle(
            kind,
            workspace=schedule.workspace,
            isolation=schedule.isolation,
            resumes_session=schedule.resume_session,
        )
        if obstacle:
            location = schedule.origin if isinstance(schedule.origin, SourceLocation) else where
            _report_obstacle(obstacle, kind, location, diagnostics)
    return diagnostics.error_count == errors_before


def _has_image(spec: AgentSpec | CommandSpec, engine: ConfigNode) -> bool:
    has_own = spec.resources is not None and spec.resources.image is not None
    return has_own or engine.child(executor_keys.K8S_IMAGE.name) is not None


def _report_obstacle(obstacle: str, kind: ExecutorKind, where: SourceLocation, diagnostics: Diagnostics) -> None:
    message = f"It cannot run with executor: {kind}: {obstacle}."
    diagnostics.error(Code.CONFLICTING_KEYS, message, where, "Write executor: local, or change that.")
