"""Why a container ended: witnesses first, then who asked, then its own log, and the bare code last.

A kill for memory needs a witness of its own: the engine's `oom` event, the kernel's line with that cgroup,
or the cgroup's counter. Exit 137 without one is `killed`, cause not proven, with who may have done it.
"""

from collections.abc import Sequence

from runward.core import container_exits, container_facts, containers, durations, failures

_C, _A, _S, _Y = failures.Cause, failures.Action, failures.Scope, failures.Certainty


def judge(facts: container_facts.Facts) -> failures.Diagnosis:
    """The verdict, with what speaks for and against it."""
    seen = facts.container
    if (before := container_facts.life_before(facts)) is not None:
        return _loop(before)
    if seen.status in {"running", "paused", "removing"}:
        return _alive(facts)
    if seen.status == "restarting":
        return _loop(facts)
    if seen.not_begun:
        return _not_started(facts)
    found = _ended(facts)
    if not seen.restarts:
        return found
    text = f"{found.verdict.summary}; after {seen.restarts} restarts by its policy {seen.restart_policy!r}"
    return found._replace(verdict=found.verdict._replace(summary=text))


def _ended(facts: container_facts.Facts) -> failures.Diagnosis:
    code = facts.container.exit_code
    if memory := _memory(facts):
        return memory
    if restarted := _engine_restart(facts):
        return restarted
    if asked := _asked(facts):
        return asked
    if code == 137:
        return _killed(facts)
    if code == 139:
        return _segfault(facts)
    return _by_log_or_code(facts)


# -- alive, or never -------------------------------------------------------------------------------------


def _alive(facts: container_facts.Facts) -> failures.Diagnosis:
    seen = facts.container
    since = f" for {durations.format_duration(facts.now - seen.started_at)}" if seen.started_at else ""
    health = f", health {seen.health}" if seen.health else ""
    restarts = f", restarted {seen.restarts} times by the engine" if seen.restarts else ""
    verdict = _verdict(_C.NONE, _A.NONE, _Y.PROVEN, f"{seen.name} is {seen.status}{since}{health}{restarts}")
    advice = []
    found = container_facts.oom_evidence(facts)
    if found:
        advice.append(
            failures.Advice("Raise the limit", "a process in it was killed for memory; the container goes on")
        )
    if seen.health == "unhealthy":
        advice.append(
            failures.Advice(f"docker inspect {seen.name}", "shows the output of the health check that fails")
        )
    return _diagnosis(facts, verdict, found, advice=advice)


def _loop(facts: container_facts.Facts) -> failures.Diagnosis:
    seen = facts.container
    inner = _ended(facts)
    times = f"{seen.restarts} restarts by the policy {seen.restart_policy!r}"
    cause = inner.verdict.cause if inner.verdict.cause is not _C.NONE else _C.UNKNOWN
    text = f"{seen.name} is in a restart loop: {times}; its last end: {inner.verdict.summary}"
    verdict = _verdict(cause, _A.HOLD, inner.verdict.certainty, text, inner.verdict.scope)
    advice = (failures.Advice(f"docker update --restart=no {seen.name}", "ends the loop while you look"),)
    return failures.Diagnosis(
        verdict,
        inner.evidence,
        inner.counter_evidence,
        inner.echoes,
        (*advice, *inner.advice),
        notes=inner.notes,
    )


_START_ERRORS: Sequence[tuple[tuple[str, ...], failures.Cause, failures.Scope, str]] = (
    (("could not select device driver", "nvidia-container", "libnvidia"), _C.DRIVER, _S.PLATFORM,
     "Install the NVIDIA container toolkit, then: nvidia-ctk runtime configure --runtime=docker"),
    (("no space left on device",), _C.DISK_FULL, _S.PLATFORM,
     "Free space where the engine keeps its data: docker system df."),
    (("permission denied", "operation not permitted"), _C.PERMISSION, _S.USER,
     "Make the command executable in the image (chmod +x), or look at the mount's options."),
    (("executable file not found", "no such file or directory", "exec format error"), _C.CONFIG_ERROR, _S.USER,
     "Correct the command or the entrypoint: docker run --rm -it --entrypoint sh IMAGE shows what is there."),
    (("initialize logging driver",), _C.CONTAINER_ERROR, _S.PLATFORM,
     "Give it a log driver that works here: --log-driver json-file, or for all: runward setup docker-logging"),
    (("port is already allocated", "address already in use"), _C.CONFIG_ERROR, _S.USER, "Choose another port."),
)  # fmt: skip


def start_error(text: str) -> tuple[failures.Cause, failures.Scope, str]:
    """What the engine's reason for not starting a container means, and what to do about it."""
    known = ((row[1], row[2], row[3]) for row in _START_ERRORS if any(w in text.lower() for w in row[0]))
    return next(known, (_C.CONTAINER_ERROR, _S.PLATFORM, "Read the engine's reason above."))


def _not_started(facts: container_facts.Facts) -> failures.Diagnosis:
    seen = facts.container
    if not seen.error:
        text = f"{seen.name} was created and never started"
        return _diagnosis(facts, _verdict(_C.NONE, _A.NONE, _Y.PROVEN, text))
    cause, scope, do = start_error(seen.error)
    verdict = _verdict(cause, _A.HOLD, _Y.PROVEN, f"{seen.name} could not be started: {seen.error}", scope)
    evidence = (failures.Evidence(seen.error, source="docker", rule="state_error"),)
    return _diagnosis(facts, verdict, evidence, advice=(failures.Advice(do),))


# -- witnesses -------------------------------------------------------------------------------------------


def _memory(facts: container_facts.Facts) -> failures.Diagnosis | None:
    """A kill for memory that belongs to this end."""
    seen = facts.container
    evidence = container_facts.oom_evidence(facts, near_only=seen.exit_code != 137)
    flag = (
        (failures.Evidence("State.OOMKilled is true", source="docker", rule="oom_flag"),)
        if seen.oom_flag
        else ()
    )
    if seen.exit_code == 0 or not (evidence or (flag and seen.exit_code == 137)):
        return None
    certainty = _Y.PROVEN if evidence else _Y.LIKELY
    records = container_facts.own_records(facts)
    whole_host = any(record.whole_host for record in records)
    process = f" ({records[-1].process}, pid {records[-1].pid})" if records else ""
    limit = seen.limits.memory
    where = (
        "the host ran out of memory"
        if whole_host or not limit
        else f"its limit of {durations.format_size(limit)}"
    )
    who = "its main process" if seen.exit_code == 137 else "a child process"
    text = f"{seen.name}: {who}{process} was killed for memory: {where}"
    if seen.exit_code != 137:
        text += f"; the container then ended with exit code {seen.exit_code}"
    verdict = _verdict(_C.HOST_OOM, _A.CHANGE, certainty, text, _S.USER)
    other, advice = _second_finding(facts)
    return _diagnosis(facts, verdict, (*evidence, *flag), other, (*_memory_advice(seen, whole_host), *advice))


def _memory_advice(seen: containers.Container, whole_host: bool) -> tuple[failures.Advice, ...]:
    limit = seen.limits.memory
    if whole_host or not limit:
        text = "the host itself ran out: other containers are in danger too"
        return (
            failures.Advice("Give each container a limit: docker run --memory=16g --memory-swap=16g", text),
            failures.Advice("runward record --show FILE --at TIME", "shows who used the memory at that time"),
        )
    larger = durations.format_size(limit * 1.5)
    shm = f"; /dev/shm ({durations.format_size(seen.limits.shm)}) counts into the limit"
    return (
        failures.Advice(
            f"Raise the limit, e.g. --memory to {larger}, with --memory-swap at the same value", ""
        ),
        failures.Advice(
            "Fewer or smaller data-loader workers, less prefetch", f"each holds its own batches{shm}"
        ),
        failures.Advice("A smaller batch with gradient accumulation, or gradient checkpointing", ""),
    )


def _engine_restart(facts: container_facts.Facts) -> failures.Diagnosis | None:
    """An engine without live-restore ends its containers with itself."""
    died, engine = facts.died_at, facts.engine_started_at
    if died is None or engine is None or facts.container.exit_code == 0:
        return None
    if facts.last("die") or not -30.0 <= engine - died <= 120.0:
        return None
    if facts.container.exit_code not in {137, 143, 255} or (facts.container.started_at or 0.0) > engine:
        return None
    text = f"{facts.container.name} ended with its engine, which was restarted at {durations.iso(engine)}"
    verdict = _verdict(_C.CONTAINER_ERROR, _A.RESTART, _Y.LIKELY, text, _S.PLATFORM)
    evidence = (
        failures.Evidence(
            f"the engine that answers now was started {engine - died:+.1f} s from the container's end, "
            "and has no `die` event of it",
            source="docker",
            rule="engine_restarted",
        ),
    )
    advice = (
        failures.Advice("runward setup docker-logging", "live-restore keeps containers over a restart"),
    )
    return _diagnosis(facts, verdict, evidence, advice=advice)


def _asked(facts: container_facts.Facts) -> failures.Diagnosis | None:
    """Somebody asked the engine to end it."""
    kills = [event for event in facts.last("kill") if event.signum in {1, 2, 3, 9, 15}]
    seen, code = facts.container, facts.container.exit_code
    if not kills or (facts.died_at is not None and kills[-1].at > facts.died_at + 1):
        return None
    signums = [event.signum for event in kills]
    forced = 9 in signums and code == 137
    if not (forced or code in {128 + (signum or 0) for signum in signums} | {0} or facts.last("stop")):
        return None
    how = container_facts.who_asked(facts, kills)
    text = f"{facts.container.name} was ended on request: {how}; the engine does not record by whom"
    verdict = _verdict(_C.CANCELLED, _A.HOLD, _Y.PROVEN, text, _S.USER)
    evidence = tuple(container_facts.event_evidence(event) for event in (*kills, *facts.last("stop")))
    other, advice = _second_finding(facts)
    advice = advice or (
        failures.Advice(f"docker start {seen.name}", "nothing is to be mended: it was asked"),
    )
    if len(signums) > 1 and 9 in signums:
        why = "it did not end within the grace; PID 1 gets no default signal handlers"
        advice = (
            failures.Advice("docker run --init, or handle SIGTERM; docker stop -t for a longer grace", why),
        )
    return _diagnosis(facts, verdict, evidence, other, advice)


def _killed(facts: container_facts.Facts) -> failures.Diagnosis:
    """SIGKILL, and no witness: what may have been is said, and what could not be seen."""
    seen = facts.container
    may = ["kill -9 on the host by a person or a tool (CI clean-up, an orchestrator)"]
    if facts.oom_counter != 0:
        may.append("a kill for memory that left no trace where we could look")
    if not facts.tells_requests:
        may.append("podman stop or podman kill, of which Podman keeps no record")
    if any(word.startswith("Docker events") for word in facts.blind):
        may.append("docker kill or docker stop, whose events cannot be seen")
    may.append("the program itself: a child of it was killed and its code passed on")
    text = f"{seen.name} was killed (SIGKILL), cause not proven: maybe {'; '.join(may)}"
    verdict = _verdict(_C.KILLED, _A.RESTART, _Y.POSSIBLE, text)
    against = []
    if facts.oom_counter == 0:
        against.append(failures.Evidence("the cgroup counted no kill for memory", source="cgroup"))
    if facts.last("die") and not facts.last("oom") and facts.tells_requests:
        against.append(
            failures.Evidence("the engine saw its end, and no oom event before it", source="docker")
        )
    if not any(word.startswith("kernel log") for word in facts.blind):
        against.append(
            failures.Evidence("the kernel's log has no kill for memory in its cgroup", source="kernel")
        )
    other, advice = _second_finding(facts)
    look = failures.Advice(
        "Keep witnesses for the next time: runward service install record",
        "memory, kernel lines and events of the last minutes before an end",
    )
    code = (container_facts.code_evidence(facts),)
    return _diagnosis(facts, verdict, (*code, *other), tuple(against), (*advice, look))


def _segfault(facts: container_facts.Facts) -> failures.Diagnosis:
    """SIGSEGV; what the log names as the reason is shown beside it."""
    lines = tuple(failures.Evidence(text, source="kernel", rule="segfault") for text in facts.segfaults)
    certainty = _Y.PROVEN if lines else _Y.LIKELY
    text = f"{facts.container.name} died of a segmentation fault (SIGSEGV)"
    verdict = _verdict(_C.SEGFAULT, _A.RESTART, certainty, text, _S.USER)
    other, advice = _second_finding(facts)
    own = failures.Advice(
        "Run once with PYTHONFAULTHANDLER=1",
        "the Python stack of each thread is printed at a segmentation fault",
    )
    return _diagnosis(
        facts, verdict, (container_facts.code_evidence(facts), *lines, *other), advice=(own, *advice)
    )


def _by_log_or_code(facts: container_facts.Facts) -> failures.Diagnosis:
    seen, log = facts.container, facts.log
    code = seen.exit_code
    if code is not None and code != 0 and log is not None and log.verdict.cause not in {_C.UNKNOWN, _C.NONE}:
        text = f"{seen.name}: {log.verdict.summary}"
        verdict = failures.Verdict(
            log.verdict.cause, log.verdict.scope, log.verdict.action, log.verdict.certainty, text,
            log.verdict.rank, log.verdict.node, log.verdict.root,
        )  # fmt: skip
        evidence = (*log.evidence, container_facts.code_evidence(facts))
        advice = (*_shm(facts, verdict.cause), *log.advice, *_engines_disk(log))
        return failures.Diagnosis(
            verdict, evidence, log.counter_evidence, log.echoes, advice,
            log.progress, (*log.notes, *facts.blind),
        )  # fmt: skip
    said = container_exits.meaning(code if code is not None else 255)
    certainty = _Y.LIKELY if said.cause is not _C.UNKNOWN else _Y.POSSIBLE
    if said.cause is _C.CANCELLED:
        certainty = _Y.POSSIBLE
    wrote = log is not None
    words = container_exits.told(code if code is not None else 255, wrote=wrote)
    text = f"{seen.name} ended with exit code {code}: {words}"
    verdict = _verdict(said.cause, said.action, certainty, text, said.scope)
    evidence = () if code == 0 else (container_facts.code_evidence(facts),)
    advice = _shm(facts, said.cause) or (
        () if code == 0 else (container_exits.next_look(code, seen.name, seen.image, wrote=wrote),)
    )
    return _diagnosis(facts, verdict, evidence, advice=advice)


# -- shared ----------------------------------------------------------------------------------------------


def _shm(facts: container_facts.Facts, cause: failures.Cause) -> tuple[failures.Advice, ...]:
    limits = facts.container.limits
    if cause is not _C.SHM or facts.container.host_ipc:
        return ()
    why = f"/dev/shm of this container is {durations.format_size(limits.shm)}"  # noqa: S108 -- said, not used
    return (failures.Advice("docker run --shm-size=16g, or --ipc=host", why),)


def _engines_disk(log: failures.Diagnosis) -> tuple[failures.Advice, ...]:
    if log.verdict.cause is not _C.DISK_FULL:
        return ()
    why = "where the engine's own data fill the disk; a prune removes ended containers and their logs"
    return (failures.Advice("docker system df, then docker image prune or docker container prune", why),)


def _second_finding(
    facts: container_facts.Facts,
) -> tuple[tuple[failures.Evidence, ...], tuple[failures.Advice, ...]]:
    """What the log names beside the root: never lost, never the root of a kill."""
    log = facts.log
    if log is None or log.verdict.cause in {_C.UNKNOWN, _C.NONE, _C.KILLED}:
        return (), ()
    head = failures.Evidence(
        f"its log also tells of {log.verdict.cause}: {log.verdict.summary}", rule="second_finding"
    )
    return (head, *log.evidence[:2]), log.advice


def _verdict(
    cause: failures.Cause,
    action: failures.Action,
    certainty: failures.Certainty,
    summary: str,
    scope: failures.Scope | None = None,
) -> failures.Verdict:
    return failures.Verdict(cause, scope, action, certainty, summary, root=f"docker:{cause}")


def _diagnosis(
    facts: container_facts.Facts,
    verdict: failures.Verdict,
    evidence: Sequence[failures.Evidence] = (),
    against: Sequence[failures.Evidence] = (),
    advice: Sequence[failures.Advice] = (),
) -> failures.Diagnosis:
    progress = facts.log.progress if facts.log is not None else failures.ProgressSpan()
    return failures.Diagnosis(
        verdict,
        tuple(evidence),
        tuple(against),
        advice=tuple(advice),
        progress=progress,
        notes=tuple(f"not observable: {why}" for why in facts.blind),
    )
