"""Every command and every result, with every field filled in."""

from datetime import timedelta
from typing import Any

from tests.support.stored_values import NOW, RUN_SPEC, SCHEDULE_SPECS, TARGET_SPECS

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.codec import to_json
from herdbeat.domain.decision import Source
from herdbeat.domain.target import CreatedVia
from herdbeat.domain.trigger import TriggerKind
from herdbeat.domain.webhook_call import EventAnswer, IncomingEvent
from herdbeat.service.commands.base import (
    AckResult,
    AckRuns,
    AppliedFleet,
    ApplyFleet,
    BackfilledSchedule,
    BackfillSchedule,
    CancelAgentHint,
    CancelledWork,
    CancelPause,
    CancelResult,
    CancelRuns,
    CancelSchedules,
    ChangeEpisodes,
    ChatReceipt,
    ClearHints,
    Command,
    CreatedToken,
    CreateOwnSchedule,
    CreateToken,
    DeletedSchedules,
    DeleteOwnSchedule,
    DeleteSchedule,
    DisableSchedules,
    EnableSchedules,
    EpisodesChanged,
    HintSchedules,
    ImportResult,
    ImportState,
    MessageQueued,
    NewSchedule,
    NewTarget,
    PaceAgent,
    PauseChange,
    PauseSchedules,
    PlanPause,
    PruneHistory,
    PruneResult,
    ReceiveChat,
    ReceivedEvents,
    ReceiveEvents,
    RecordState,
    ReleaseAccount,
    ReleasedAccount,
    ReleasedItem,
    ReleasedItems,
    ReleaseWork,
    RemoteRunReceipt,
    ReportRemoteRun,
    ReportRun,
    ResetSchedules,
    RestoreHints,
    ResumeSchedules,
    RetriedRun,
    RetriedRuns,
    RetryRuns,
    RevokedToken,
    RevokeToken,
    ScheduleChange,
    ScheduleChanges,
    SelfChange,
    SendTestMessage,
    SkipBeats,
    StateEntry,
    TakenRun,
    TakeRemoteRun,
    TriggeredBeat,
    TriggerSchedule,
    UpsertedSchedule,
    UpsertSchedule,
    WakeAgent,
)

HOUR = timedelta(hours=1)
ONE: dict[str, Any] = {"schedules": (3, 4)}

COMMANDS: list[Command[Any]] = [
    PauseSchedules(**ONE, reason="release", until=NOW, cancel_running=True),
    ResumeSchedules(**ONE, reason="done"),
    DisableSchedules(**ONE, reason="broken", cancel_running=True),
    EnableSchedules(**ONE, reason="whole"),
    HintSchedules(**ONE, reason="many", every=90.5, lasts=3600.0),
    HintSchedules(**ONE, reason="once", at=NOW),
    ClearHints(**ONE, reason="calm", hint=12),
    RestoreHints(**ONE, reason="undo", changed_at=NOW),
    ResetSchedules(**ONE, reason="fixed"),
    RecordState(**ONE, reason="moved", last_run_at=NOW, next_run_at=NOW + HOUR, last_error="the disk is full"),
    SkipBeats(**ONE, reason="holiday", count=3),
    CancelSchedules(**ONE, reason="enough", force=True),
    CancelRuns(runs=(7, 8), reason="enough", force=True),
    RetryRuns(runs=(7, 8), reason="again", force=True),
    ReleaseWork(claims=(5, 6), only_ledger=True, reason="stuck"),
    ReceiveEvents(
        events=(
            IncomingEvent(
                schedule=3,
                event_id="d-1",
                data="{}",
                origin="webhook:github",
                digest="0f",
                is_filtered=True,
                kind=TriggerKind.CHAT,
            ),
        ),
        reason="call",
    ),
    BackfillSchedule(schedule=3, start=NOW - HOUR, end=NOW, reason="outage"),
    TriggerSchedule(
        schedule=3,
        queue=True,
        dedup_id="deploy-7",
        is_private_id=True,
        prompt="Look again.",
        input="{}",
        reset=True,
        reason="now",
    ),
    UpsertSchedule(
        what=ChangeKind.ADD,
        target="triage",
        name="hourly",
        new_target=NewTarget(kind="command", spec=to_json(TARGET_SPECS["command"]), max_concurrent=2),
        new_schedule=NewSchedule(plan=SCHEDULE_SPECS["interval"], brief=RUN_SPEC, enabled=False),
        way=CreatedVia.API,
        expected="0a1b2c",
        reason="new",
    ),
    DeleteSchedule(target="triage", name="hourly", expected="3-7", reason="old"),
    ApplyFleet(path="/srv/herdbeat.yaml", reason="deploy"),
    ImportState(
        states=(StateEntry(agent="a", name="b", last_run_at=NOW, last_error="it broke", disabled=True),), reason="move"
    ),
    PruneHistory(reason="disk"),
    CreateToken(name="ci", grants="operate", digest="0f" * 32, expires_at=NOW, reason="nightly builds"),
    RevokeToken(name="ci", reason="leaked"),
    ReleaseAccount(account="team", reason="more quota"),
    AckRuns(runs=(7, 8), reason="done"),
    ChangeEpisodes(subjects=("backup", "db1"), until=NOW, clear=True, reason="known"),
    SendTestMessage(channel="ops", reason="is it there"),
    PlanPause(from_at=NOW, until=NOW, names=("backup",), tags=("db",), groups=("g",), everything=True, reason="db"),
    CancelPause(pause=3, reason="not today"),
    ReceiveChat(
        platform="slack",
        target="helper",
        channel="C1",
        thread="1.1",
        message="1.2",
        user="U1",
        text="hello",
        bot_token_env="BOT",
        may_command=True,
        has_thread=False,
        replies_inline=True,
        reason="said",
    ),
    CreateOwnSchedule(
        schedule=3,
        run=7,
        name="watch",
        prompt="Check the deploy.",
        every="10m",
        cron="0 9 * * *",
        at=NOW,
        expires_s=86_400.0,
        reason="release day",
    ),
    DeleteOwnSchedule(schedule=3, run=7, name="watch", reason="done"),
    WakeAgent(schedule=3, run=7, after=1200.0, at=NOW, note="look at the deploy", reason="waiting"),
    PaceAgent(schedule=3, run=7, every=20.0, lasts=3600.0, reason="many"),
    CancelAgentHint(schedule=3, run=7, hint=5, reason="calm"),
    ReportRun(
        schedule=3, run=7, ok=False, quiet=True, needs_you="a key", summary="it broke", metrics={"open": 3}, reason="r"
    ),
    TakeRemoteRun(run=7, nonce="ab" * 16, place="vm, process 12", executor="ray", digest="cd" * 32, reason="r"),
    ReportRemoteRun(run=7, nonce="ab" * 16, sequence=3, log="{}\n", result="{}", reason="r"),
]

CHANGED = ScheduleChange(
    schedule="triage/hourly",
    changed=True,
    before={"paused": False},
    after={"paused": True},
    next_run_at=NOW,
    source=Source.PAUSED,
    running=1,
    notes=("it is disabled",),
    refused="paused by human:you",
    hint="Ask that person to change it.",
)
APPLIED = AppliedFleet(added=("a/new",), changed=("a/b",), removed=("a/old",), targets=("d",))
PRUNED = PruneResult(beats=1, runs=2, logs=3, plans=4, hints=5, changes=6)
IMPORTED = ImportResult(taken=("a/b",), kept=("a/c",), empty=("a/d",), unknown=("x/y",))

RESULTS: dict[type[Any], Any] = {
    type(each): each
    for each in (
        ScheduleChanges(items=(CHANGED,)),
        CancelResult(items=(CancelledWork(schedule="a/b", id=3, runs=("0007",), called_off=2),)),
        RetriedRuns(
            items=(
                RetriedRun(
                    schedule="a/b", asked="0001", retries="0007", beat="0009", success=True, attempt=2, refused="no"
                ),
            )
        ),
        ReceivedEvents(answers=(EventAnswer.ACCEPTED, EventAnswer.FULL)),
        ReleasedItems(
            items=(ReleasedItem(item="42", source="github:acme/app", schedule="a/b", success=True, refused="no"),)
        ),
        BackfilledSchedule(schedule="a/b", backfill=2, count=3, first=NOW - HOUR, last=NOW, last_start_at=NOW + HOUR),
        CreatedToken(name="ci", scope="operate", expires_at=NOW),
        RevokedToken(name="ci"),
        ReleasedAccount(account="team", holds=1),
        AckResult(acked=2),
        EpisodesChanged(changed=3),
        ChatReceipt(accepted=True, reply="done"),
        PauseChange(id=1, selection="backup", from_at=NOW, until=NOW, reason="db", schedules=2),
        MessageQueued(message_id="msg_1"),
        TriggeredBeat(
            schedule="a/b",
            success=True,
            skipped=True,
            skip_reason=SkipReason.PAUSED,
            waits_for=SkipReason.AT_CAPACITY,
            beat="0009",
            running=1,
            max_concurrent=2,
            next_run_at=NOW,
            deduplicated=True,
        ),
        UpsertedSchedule(
            what=ChangeKind.ADD, subject="a/b", removed=("a/c",), next_run_at=NOW, when="every 1h", enabled=True
        ),
        DeletedSchedules(what=ChangeKind.REMOVE, subject="a/b", removed=("a/b",)),
        TakenRun(data="{}", secret="s", run_token="t", note="n", refused="r"),
        RemoteRunReceipt(stop="cancelled", is_over=True),
        SelfChange(
            schedule="a/b",
            changed=True,
            id=5,
            at=NOW,
            every_s=20.0,
            effective_every_s=15.0,
            until=NOW + HOUR,
            next_run_at=NOW,
            source=Source.AI_ONESHOT,
            wakes_left=47,
            notes=("shadowed",),
            refused="too_soon",
            detail="It is too soon.",
            hint="Wait.",
            accepted={"after": "60s"},
        ),
        APPLIED,
        IMPORTED,
        PRUNED,
    )
}
