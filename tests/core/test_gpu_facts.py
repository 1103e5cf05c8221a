"""Ownership, idleness, health, given-back memory, zombies and bad nodes: the pure parts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import (
    failures,
    given_back,
    gpu_health,
    gpu_idle,
    gpu_ownership,
    gpus,
    nodes,
    xid_actions,
    zombies,
)

A, B, C = "GPU-aaaa1111", "GPU-aaaa2222", "GPU-bbbb3333"


def sample(index, uuid, *pids, processes=True, mig=(), **values):
    held = tuple(gpus.GpuProcess(pid, 100.0) for pid in pids) if processes else None
    absent = {} if processes else {"processes": "Not Supported"}
    return gpus.GpuSample(
        index,
        uuid,
        values=values,
        absent=absent,
        processes=held,
        mig=mig,
        bus_id=f"00000000:{index:02x}:00.0",
    )


def reading(*samples, **more):
    return gpus.GpuReading(tuple(samples), "nvml", 0.0, **more)


# -- whose ----------------------------------------------------------------------------------------------

BOX = reading(sample(0, A, 10), sample(1, B, 20), sample(2, C))


@pytest.mark.parametrize(
    ("claims", "owned"),
    [
        ({"pids": frozenset({10, 11})}, {A: "process"}),
        ({"visible": "1"}, {B: "CUDA_VISIBLE_DEVICES"}),
        ({"visible": "GPU-bbbb,0"}, {C: "CUDA_VISIBLE_DEVICES", A: "CUDA_VISIBLE_DEVICES"}),
        ({"visible": "0,9,1"}, {A: "CUDA_VISIBLE_DEVICES"}),
        ({"granted": ("1", "2"), "granted_by": "SLURM_JOB_GPUS"}, {B: "SLURM_JOB_GPUS", C: "SLURM_JOB_GPUS"}),
        (
            {"granted": ("1", "2"), "granted_by": "SLURM_JOB_GPUS", "visible": "1"},
            {C: "CUDA_VISIBLE_DEVICES"},
        ),
        ({"devices": frozenset({2})}, {C: "cgroup"}),
        ({"devices": frozenset({1, 2}), "visible": "0"}, {B: "CUDA_VISIBLE_DEVICES"}),
        ({"pids": frozenset({20}), "visible": "1,2"}, {B: "process", C: "CUDA_VISIBLE_DEVICES"}),
    ],
)
def test_the_runs_gpus_are_found_by_each_witness(claims, owned):
    assert dict(gpu_ownership.own(BOX, gpu_ownership.Claims(**claims)).own) == owned


@pytest.mark.parametrize("claims", [{}, {"visible": ""}, {"visible": "-1"}, {"pids": frozenset({99})}])
def test_without_a_witness_the_answer_is_unknown_and_never_all(claims):
    found = gpu_ownership.own(BOX, gpu_ownership.Claims(**claims))
    assert (dict(found.own), bool(found.unknown)) == ({}, True)


def test_an_ambiguous_or_unknown_uuid_names_nothing_and_is_said():
    found = gpu_ownership.own(BOX, gpu_ownership.Claims(visible="GPU-aaaa"))
    assert (dict(found.own), found.unmatched) == ({}, ("GPU-aaaa",))


def test_mig_names_lead_to_their_gpu():
    box = reading(sample(0, A, mig=(gpus.MigInstance("MIG-1234-5", 1, 0, 4864.0),)), sample(1, B))
    (shown,) = box.samples[0].to_json()["mig"]
    assert shown == {"uuid": "MIG-1234-5", "gpu_instance": 1, "compute_instance": 0, "mem_total_mib": 4864.0}
    assert gpu_ownership.resolve_visible("MIG-1234-5", box.samples)[0] == [A]
    assert gpu_ownership.resolve_visible(f"MIG-{B}/1/0", box.samples)[0] == [B]


def test_allocated_gpus_without_a_process_and_strangers_are_reported():
    found = gpu_ownership.own(BOX, gpu_ownership.Claims(pids=frozenset({10}), visible="0,1,2"))
    assert found.without_process == (B, C)
    assert dict(found.shared) == {B: (20,)}


def test_where_the_driver_lists_no_processes_none_is_called_unused():
    box = reading(sample(0, A, processes=False))
    found = gpu_ownership.own(box, gpu_ownership.Claims(pids=frozenset({10}), visible="0"))
    assert (set(found.own), found.without_process) == ({A}, ())


# -- idle -----------------------------------------------------------------------------------------------

RULE = gpu_idle.IdleRule(after_s=60, below_pct=5, grace_s=10)


def fold(readings, rule=RULE):
    state = gpu_idle.start(0.0)
    for at, util in readings:
        state = gpu_idle.observe(state, rule, at, util)
    return state


def every_5_s(until, util, start=10):
    return [(t, util(t)) for t in range(start, until + 1, 5)]


KNOWN = frozenset({A, B})


def test_idle_for_the_whole_window_is_idle():
    state = fold(every_5_s(70, lambda _: {A: 0, B: 4.9}))
    assert gpu_idle.judge(state, RULE, KNOWN, None).idle
    assert not gpu_idle.judge(fold(every_5_s(65, lambda _: {A: 0, B: 0})), RULE, KNOWN, None).idle


def test_the_grace_at_the_start_does_not_count():
    early = fold(every_5_s(65, lambda _: {A: 0, B: 0}, start=0))
    assert not gpu_idle.judge(early, RULE, KNOWN, None).idle


@pytest.mark.parametrize(
    ("util", "said"),
    [
        (lambda t: {A: 0, B: 50 if t == 40 else 0}, "in use"),
        (lambda _: {A: 0, B: None}, f"not to be had: {B}"),
        (lambda _: {A: 0}, "in use"),
    ],
)
def test_use_blindness_or_absence_of_one_gpu_is_not_idleness_of_all(util, said):
    found = gpu_idle.judge(fold(every_5_s(90, util)), RULE, KNOWN, None)
    assert not found.idle
    assert said in found.reason


def test_any_needs_one_gpu_only():
    rule = gpu_idle.IdleRule(60, 5, gpu_idle.Mode.ANY, grace_s=10)
    state = fold(every_5_s(90, lambda _: {A: 0, B: 99}), rule)
    assert gpu_idle.judge(state, rule, KNOWN, None).gpus == (A,)


def test_a_loader_bound_run_whose_steps_advance_is_not_idle():
    state = fold(every_5_s(90, lambda _: {A: 0, B: 0}))
    found = gpu_idle.judge(state, RULE, KNOWN, progress_at=80.0)
    assert (found.idle, found.reason) == (False, "utilisation is low but training advances")
    assert gpu_idle.judge(state, RULE, KNOWN, progress_at=20.0).idle


def test_a_gap_between_readings_starts_the_window_again():
    readings = [*every_5_s(40, lambda _: {A: 0, B: 0}), *every_5_s(115, lambda _: {A: 0, B: 0}, start=60)]
    assert not gpu_idle.judge(fold(readings), RULE, KNOWN, None).idle


def test_a_strangers_gpu_plays_no_part():
    state = fold(every_5_s(90, lambda _: {A: 0, B: 0, C: 99}))
    assert gpu_idle.judge(state, RULE, KNOWN, None).idle


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=40))
def test_idle_is_only_ever_said_when_every_reading_of_the_window_was_low(utils):
    state = fold([(10 + 5 * i, {A: u}) for i, u in enumerate(utils)])
    found = gpu_idle.judge(state, RULE, frozenset({A}), None)
    window = utils[-13:]
    proven = len(utils) >= 13 and all(u is not None and u < 5 for u in window)
    assert found.idle is proven


# -- health ---------------------------------------------------------------------------------------------

FIT = {
    "ecc_uncorrected": 0,
    "remap_failed": 0,
    "remap_pending": 0,
    "throttle_mask": 0,
    "sm_clock_mhz": 1980,
    "sm_clock_max_mhz": 1980,
    "temp_c": 42,
    "util_pct": 90,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "pcie_gen": 5,
    "pcie_gen_max": 5,
    "nvlinks_down": 0,
    "nvlink_errors": 0,
}


def level(check, **values):
    found = gpu_health.check(reading(sample(0, A, **{**FIT, **values})), [])
    return {f.check: f.level.name for f in found}[check]


@pytest.mark.parametrize(
    ("check", "values", "expected"),
    [
        ("ecc", {"ecc_uncorrected": 1}, "FAIL"),
        ("remapped_rows", {"remap_pending": 1}, "WARN"),
        ("remapped_rows", {"remap_failed": 1}, "FAIL"),
        ("throttle", {"throttle_mask": 0x1}, "PASS"),
        ("throttle", {"throttle_mask": 0x4}, "PASS"),
        ("throttle", {"throttle_mask": 0x40}, "FAIL"),
        ("throttle", {"throttle_mask": 0x80}, "FAIL"),
        ("clock", {"sm_clock_mhz": 1300, "temp_c": 84}, "FAIL"),
        ("clock", {"temp_c": 84}, "WARN"),
        ("clock", {"sm_clock_mhz": 345, "util_pct": 0}, "PASS"),
        ("clock", {"sm_clock_mhz": 345}, "WARN"),
        ("pcie", {"pcie_width": 8}, "WARN"),
        ("pcie", {"pcie_gen": 1}, "WARN"),
        ("pcie", {"pcie_gen": 1, "util_pct": 0}, "PASS"),
        ("nvlink", {"nvlinks_down": 1}, "FAIL"),
        ("nvlink", {"nvlink_errors": 3}, "WARN"),
    ],
)
def test_each_check_has_its_level(check, values, expected):
    assert level(check) == "PASS"
    assert level(check, **values) == expected


def test_what_could_not_be_read_is_never_a_pass():
    blind = gpus.GpuSample(0, A, absent=dict.fromkeys(FIT, "Unknown Error"))
    levels = {f.check: f.level for f in gpu_health.check(reading(blind), None)}
    assert set(levels.values()) == {gpu_health.Level.WARN}


def test_what_a_gpu_does_not_have_is_no_warning():
    plain = gpus.GpuSample(0, A, values=FIT | {}, absent={"ecc_uncorrected": "[N/A]"})
    plain = gpus.GpuSample(
        0, A, values={k: v for k, v in FIT.items() if k != "ecc_uncorrected"}, absent=plain.absent
    )
    assert {f.level.name for f in gpu_health.check(reading(plain), []) if f.check == "ecc"} == {"PASS"}


def test_a_gpu_that_does_not_answer_beside_others_fails_the_node():
    said = "GPU 1 does not answer: GPU is lost"
    found = gpu_health.check(replace(reading(sample(0, A, **FIT)), mute=(said,)), [])
    assert gpu_health.worst(found) is gpu_health.Level.FAIL
    assert said in [one.text for one in found if one.check == "lost"]


def test_a_gpu_that_is_gone_fails_the_node():
    found = gpu_health.check(reading(sample(0, A, **FIT)), [], before=[A, B])
    assert gpu_health.worst(found) is gpu_health.Level.FAIL
    assert any(B in f.text and f.action is failures.Action.RESTART_ELSEWHERE for f in found)


@pytest.mark.parametrize(
    ("code", "level", "job"),
    [
        (79, "FAIL", "restart_elsewhere"),
        (48, "FAIL", "restart_elsewhere"),
        (94, "WARN", "restart_elsewhere"),
        (13, "WARN", "restart"),
        (43, "WARN", "restart"),
        (63, "WARN", "none"),
        (999, "WARN", "none"),
    ],
)
def test_xids_get_the_vendors_action(code, level, job):
    found = gpu_health.check(reading(sample(0, A, **FIT)), [gpus.Xid(code, A, 5.0)])
    (xid,) = [f for f in found if f.check == "xid"]
    assert (xid.level.name, str(xid.action), xid.gpu) == (level, job, "0")


def test_only_the_first_xid_of_a_burst_counts():
    burst = [gpus.Xid(45, A, 12.0), gpus.Xid(31, A, 10.0), gpus.Xid(43, A, 11.0), gpus.Xid(79, B, 11.0)]
    assert [(x.code, x.uuid) for x in xid_actions.first_of_bursts([*burst, gpus.Xid(48, A, 60.0)])] == [
        (31, A),
        (79, B),
        (48, A),
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "NVRM: Xid (PCI:0000:00:06): 43, pid=1355, name=python3, channel 0x0000000a",
            xid_actions.KernelXid("0000:00:06", 43),
        ),
        (
            "NVRM: Xid (PCI:0000:b1:00): 79, GPU has fallen off the bus.",
            xid_actions.KernelXid("0000:b1:00", 79),
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30",
            xid_actions.KernelXid("0000:c1:00.0", 20034, switch=True, fatal=True),
        ),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module", None),
    ],
)
def test_kernel_lines_about_gpus_are_read(line, found):
    assert xid_actions.parse_kernel(line) == found


@pytest.mark.parametrize(
    ("kernel", "nvml", "same"),
    [
        ("0000:b1:00", "00000000:B1:00.0", True),
        ("0000:b1:00.0", "0000:B1:00.0", True),
        ("0000:b1:00", "00000000:B2:00.0", False),
        ("x", "x", False),
    ],
)
def test_bus_ids_of_kernel_and_driver_are_compared(kernel, nvml, same):
    assert xid_actions.same_bus(kernel, nvml) is same


# -- given back -----------------------------------------------------------------------------------------

EXPECTED = given_back.Expected(frozenset({A, B}), {A: 600.0, B: 0.0}, pids={10})


def test_memory_that_is_back_lets_the_next_attempt_begin():
    now = reading(
        sample(0, A, mem_used_mib=615), sample(1, B, mem_used_mib=615), sample(2, C, 77, mem_used_mib=70000)
    )
    assert given_back.judge(EXPECTED, now, 1.0).free is True


def test_memory_that_is_held_names_the_pids():
    now = reading(sample(0, A, 10, 99, mem_used_mib=5000), sample(1, B, mem_used_mib=0))
    found = given_back.judge(EXPECTED, now, 61.0)
    assert (found.free, found.pids, found.over) == (False, (10, 99), True)
    assert "GPU 0: 4400 MiB not given back; held by pid 10 of the ended attempt, pid 99" in found.text


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (gpus.GpusUnseen("GPU query has not answered for 30 s", 0.0), "has not answered"),
        (reading(sample(0, A, mem_used_mib=1)), f"{B} can no longer be seen"),
        (reading(sample(0, A, mem_used_mib=1), sample(1, B)), "memory not read"),
    ],
)
def test_memory_that_cannot_be_seen_is_unknown_and_never_free(now, said):
    found = given_back.judge(EXPECTED, now, 1.0)
    assert found.free is None
    assert said in found.text


def test_memory_that_nobody_holds_is_called_zombie_memory():
    now = reading(sample(0, A, mem_used_mib=9000), sample(1, B, mem_used_mib=0))
    assert "zombie memory" in given_back.judge(EXPECTED, now, 1.0).text


# -- zombies --------------------------------------------------------------------------------------------


def holder(pid, age=1000.0, cpu=0.0, devices=(0,), command="python train.py"):
    return zombies.Holder(pid, 1, age, cpu, devices, command)


def test_old_quiet_unlisted_holders_are_zombies_and_nobody_else():
    holders = [
        holder(1),
        holder(2, age=119),
        holder(3, cpu=50),
        holder(4, command="/usr/bin/nvidia-persistenced --user x"),
        holder(5, devices=()),
        holder(6, devices=(1,)),
        holder(10),
        holder(7),
    ]
    box = reading(sample(0, A, 10, util_pct=0), sample(1, B, util_pct=80))
    found, why = zombies.find(holders, box, spare={7})
    assert ([z.holder.pid for z in found], why) == ([1], "")


def test_where_the_driver_lists_no_processes_zombies_cannot_be_told():
    found, why = zombies.find([holder(1)], reading(sample(0, A, processes=False)))
    assert (found, "lists no processes (Not Supported)" in why) == ((), True)


# -- nodes ----------------------------------------------------------------------------------------------

DAY = 86400.0
HARDWARE, TIMEOUT = failures.Cause.GPU_HARDWARE, failures.Cause.NCCL_TIMEOUT


def mark(node, cause=HARDWARE, at=0.0, run="r", **more):
    return nodes.Mark(node, at, cause, run, **more)


def test_proven_hardware_proposes_a_node_and_the_mark_fades():
    assert nodes.proposals([mark("a")], now=0.0) == ("a",)
    assert nodes.proposals([mark("a")], now=3 * DAY) == ("a",)
    assert nodes.proposals([mark("a")], now=4 * DAY) == ()
    (standing,) = nodes.standings([mark("a")], now=7 * DAY)
    assert standing.weight == pytest.approx(0.5)


def test_one_run_is_one_incident_but_several_runs_add_up():
    assert nodes.proposals([mark("a", TIMEOUT, run="x") for _ in range(50)], now=0.0) == ()
    assert nodes.proposals([mark("a", TIMEOUT, run=str(n)) for n in range(4)], now=0.0) == ("a",)


def test_never_more_than_a_tenth_of_the_nodes_is_proposed():
    marks = [mark(f"n{n:02}", run=str(n)) for n in range(30)]
    assert len(nodes.proposals(marks, 0.0, known_nodes=40)) == 4
    assert len(nodes.proposals(marks, 0.0)) == 1
    table = nodes.standings(marks, 0.0, known_nodes=40)
    assert sum(s.capped for s in table) == 26


def test_causes_of_the_user_mark_nobody():
    assert nodes.standings([mark("a", failures.Cause.GPU_OOM)], 0.0) == []


def test_a_merged_reading_keeps_what_the_slow_one_knew():
    fast = reading(gpus.GpuSample(0, A, values={"util_pct": 5.0}, absent={"power_w": "Not Supported"}))
    slow = reading(sample(0, A, 10, ecc_uncorrected=0.0, util_pct=99.0))
    (merged,) = gpus.merge(fast, slow).samples
    assert dict(merged.values) == {"util_pct": 5.0, "ecc_uncorrected": 0.0}
    assert [p.pid for p in merged.processes] == [10]
    assert merged.to_json()["power_w"] is None
    assert merged.to_json()["absent"] == {"power_w": "Not Supported"}
