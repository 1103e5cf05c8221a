"""What pods, nodes and owners say, in the shapes of Kubernetes 1.29 to 1.33: tables of objects and what they mean."""

import pytest

from kubeapi import shapes
from kubeapi.shapes import condition, ended, pod, waiting
from runward.core import job, kubernetes, kubernetes_nodes, kubernetes_owners

S = job.JobState
NOW = 1769850000.0  # 2026-01-31T09:00:00Z


def disrupted(reason, message=""):
    return [condition("DisruptionTarget", "True", reason, message)]


INIT_FAILED = [{"name": "fetch", "restartCount": 0, "state": ended(1)}]
INIT_LOOPS = [{"name": "fetch", "restartCount": 4, "state": waiting("CrashLoopBackOff", "back-off 1m20s")}]
UNSCHEDULABLE = [
    condition(
        "PodScheduled", "False", "Unschedulable", "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."
    )
]


@pytest.mark.parametrize(
    ("seen", "state", "word", "code", "facts"),
    [
        (pod(), S.RUNNING, "Running", None, ()),
        (pod(state=ended(0, "Completed"), phase="Succeeded"), S.SUCCEEDED, "Completed", 0, ()),
        (pod(state=ended(1), phase="Failed"), S.FAILED, "Error", 1, ()),
        (pod(state=ended(137), phase="Failed"), S.FAILED, "Error", 137, ()),
        (pod(state=ended(137, "OOMKilled"), phase="Failed"), S.OUT_OF_MEMORY, "OOMKilled", 137, ("oom_kill",)),
        # the container that trains has ended, a sidecar runs on: nobody starts it again
        (pod(state=ended(1)), S.FAILED, "Error", 1, ()),
        (pod(state=ended(0, "Completed"), policy="OnFailure"), S.SUCCEEDED, "Completed", 0, ()),
        # the kubelet starts it again by itself: not over
        (pod(state=ended(1), policy="Always"), S.PENDING, "Error", None, ()),
        (pod(state=ended(1), policy="OnFailure"), S.PENDING, "Error", None, ()),
        (
            pod(state=waiting("CrashLoopBackOff"), last=ended(137, "OOMKilled"), policy="Always"),
            S.PENDING,
            "CrashLoopBackOff",
            None,
            ("oom_kill",),
        ),
        # never began
        (pod(state=waiting("ImagePullBackOff"), phase="Pending"), S.PENDING, "ImagePullBackOff", None, ()),
        (pod(state=waiting("CreateContainerConfigError"), phase="Pending"), S.PENDING, "CreateContainerConfigError", None, ()),
        ({"status": {"phase": "Pending", "conditions": UNSCHEDULABLE}}, S.PENDING, "Unschedulable", None, ()),
        (
            pod(state=waiting("PodInitializing"), phase="Pending", initContainerStatuses=INIT_LOOPS),
            S.PENDING,
            "CrashLoopBackOff",
            None,
            (),
        ),
        (pod(state=waiting("PodInitializing"), phase="Failed", initContainerStatuses=INIT_FAILED), S.FAILED, "Error", 1, ()),
        (pod(state=ended(128, "StartError"), phase="Failed"), S.FAILED, "StartError", 128, ()),
        # taken away
        (
            pod(state=ended(143), phase="Failed", conditions=disrupted("PreemptionByScheduler")),
            S.PREEMPTED,
            "PreemptionByScheduler",
            143,
            ("preempted",),
        ),
        (
            pod(state=ended(143), phase="Failed", conditions=disrupted("EvictionByEvictionAPI")),
            S.PREEMPTED,
            "EvictionByEvictionAPI",
            143,
            ("preempted",),
        ),
        (
            pod(
                state=ended(137),
                phase="Failed",
                reason="Evicted",
                message="The node was low on resource: memory. Threshold quantity: 100Mi, available: 70Mi.",
                conditions=disrupted("TerminationByKubelet"),
            ),
            S.PREEMPTED,
            "Evicted",
            137,
            ("evicted", "node_oom"),
        ),
        (
            pod(
                state=ended(137),
                phase="Failed",
                reason="Evicted",
                message="Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.",
            ),
            S.PREEMPTED,
            "Evicted",
            137,
            ("evicted", "disk_full"),
        ),
        (pod(state=ended(143), phase="Failed", reason="Terminated", message="Pod was terminated in response to imminent node shutdown."), S.PREEMPTED, "NodeShutdown", 143, ()),
        (pod(state=ended(143), phase="Failed", reason="DeadlineExceeded"), S.TIME_LIMIT, "DeadlineExceeded", 143, ()),
        # the node is lost: nobody saw the exit code
        (pod(phase="Failed", conditions=disrupted("DeletionByPodGC", "PodGC: node no longer exists")), S.NODE_FAILED, "DeletionByPodGC", None, ("node_failed",)),
        (pod(state=ended(137, "ContainerStatusUnknown"), phase="Failed"), S.NODE_FAILED, "ContainerStatusUnknown", None, ()),
        (pod(phase="Failed", reason="NodeLost"), S.NODE_FAILED, "NodeLost", None, ()),
        (pod(phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed due to no healthy devices present"), S.NODE_FAILED, "UnexpectedAdmissionError", None, ()),
        ({}, S.PENDING, "Unknown", None, ()),
    ],
)  # fmt: skip
def test_every_way_for_a_pod_to_stand_has_its_state(seen, state, word, code, facts):
    found = kubernetes.status(seen, now=NOW)
    assert (found.state, found.word) == (state, word)
    expected = (
        None if not state.final else job.ExitStatus(code) if code is not None else job.ExitStatus.unseen()
    )
    assert found.exit == expected
    assert tuple(one.fact for one in found.witnesses) == facts


def test_the_container_that_trains_is_the_pods_default():
    two = pod(state=ended(1), phase="Failed")
    two["spec"]["containers"].append({"name": "other"})
    two["status"]["containerStatuses"].append({"name": "other", "state": ended(0, "Completed")})
    two["metadata"]["annotations"] = {kubernetes.DEFAULT_CONTAINER: "other"}
    assert kubernetes.status(two).exit == job.ExitStatus(0)
    assert kubernetes.status(two, "train").exit == job.ExitStatus(1)


def test_a_pod_that_stays_terminating_is_ending_and_then_as_over_as_it_will_get():
    one = pod()
    one["metadata"] |= {
        "deletionTimestamp": "2026-01-31T08:58:00Z",
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    assert (kubernetes.status(one, now=NOW).state, kubernetes.status(one, now=NOW).left) == (S.ENDING, ())
    late = kubernetes.status(one, now=NOW + 600)
    assert late.state is S.ENDING
    assert "on node gpu-7, held by finalizers batch.kubernetes.io/job-tracking" in late.left[0]


# -- nodes ---------------------------------------------------------------------------------------------------

END = job.JobStatus(S.FAILED, exit=job.ExitStatus(1), node="gpu-7", started_at=NOW - 7200)
BLIND = job.JobStatus(S.NODE_FAILED, exit=job.ExitStatus.unseen(), node="gpu-7", started_at=NOW - 7200)
XID = condition(
    "SysLogsXIDError",
    "True",
    "SysLogsXIDErrorIsNotHealthy",
    "ErrorCode:79 PCI:0000:1b:00.0",
    "2026-01-31T08:30:00Z",
)


@pytest.mark.parametrize(
    ("node", "end", "facts"),
    [
        (shapes.node(), END, []),
        (None, BLIND, ["node_failed"]),
        (None, END, ["node_problem"]),
        (shapes.node("gpu-7", condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")), BLIND, ["node_failed"]),
        (shapes.node("gpu-7", condition("Ready", "False", "KubeletNotReady")), END, ["node_problem"]),
        (shapes.node("gpu-7", condition("MemoryPressure", "True")), END, []),
        (shapes.node("gpu-7", condition("KernelDeadlock", "True", "DockerHung", "task docker:7 blocked")), END, ["node_problem"]),
        (shapes.node("gpu-7", condition("ReadonlyFilesystem", "False")), END, []),
        (shapes.node("gpu-7", XID), END, ["gpu_lost"]),
        (shapes.node("gpu-7", condition("SysLogsGPUFallenOff", "True", at="2026-01-31T08:30:00Z")), END, ["gpu_lost"]),
        (shapes.node("gpu-7", {**XID, "lastTransitionTime": "2026-01-30T08:30:00Z"}), END, ["node_problem"]),
        (shapes.node("gpu-7", condition("GpuNvlinkWatch", "True", "GpuNvlinkWatchIsNotHealthy")), END, ["node_problem"]),
    ],
)  # fmt: skip
def test_conditions_of_a_node_are_witnesses_of_what_they_can_prove(node, end, facts):
    assert [one.fact for one in kubernetes_nodes.witnesses(node, "gpu-7", end)] == facts


def test_taints_and_a_cordon_are_words_beside_an_end():
    taints = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "team", "value": "a", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]
    node = shapes.node("gpu-7", condition("KernelDeadlock", "True"), XID, taints=taints, unschedulable=True)
    said = kubernetes_nodes.texts(node, "gpu-7")
    assert "SysLogsXIDError" in said[0]  # what is about GPUs comes first
    assert any("unreachable" in text for text in said)
    assert "node gpu-7 is cordoned" in said
    assert not any("team" in text for text in said)


# -- owners --------------------------------------------------------------------------------------------------

OLD = "2026-01-31T08:00:00Z"
FRESH = "2026-01-31T08:59:58Z"


def owned(name, **more):
    one = pod(name, **more)
    one["metadata"]["creationTimestamp"] = more.get("at", "2026-01-31T07:00:00Z")
    return one


FAILED_POD = owned("a", state=ended(1, at="2026-01-31T07:50:00Z"), phase="Failed")
KILLED_POD = owned("b", state=ended(137, at="2026-01-31T07:50:00Z"), phase="Failed")
LOSSES = {
    "job": shapes.job(conditions=[condition("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit", OLD)], failed=1),
    "jobset": shapes.jobset(conditions=[condition("Failed", "True", "FailedJobs", "jobset failed due to one or more job failures", OLD)], restarts=3),
    "rayjob": shapes.rayjob(jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed", message="Job entrypoint command failed with exit code 1", endTime=OLD, rayClusterName="c"),
    "pytorchjob": shapes.pytorchjob(conditions=[condition("Running", "False"), condition("Failed", "True", "PyTorchJobFailed", "Worker failed", OLD)]),
    "trainjob": shapes.trainjob(conditions=[condition("Failed", "True", "FailedJobs", "jobset failed", OLD)]),
}  # fmt: skip
WINS = {
    "job": shapes.job(conditions=[condition("SuccessCriteriaMet"), condition("Complete", "True", "CompletionsReached", at=OLD)], succeeded=1),
    "jobset": shapes.jobset(conditions=[condition("Completed", "True", "AllJobsCompleted", at=OLD)]),
    "rayjob": shapes.rayjob(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED", endTime=OLD),
    "pytorchjob": shapes.pytorchjob(conditions=[condition("Succeeded", "True", "PyTorchJobSucceeded", at=OLD)]),
    "trainjob": shapes.trainjob(conditions=[condition("Complete", "True", "AllJobsCompleted", at=OLD)]),
}  # fmt: skip
AT_WORK = {
    "job": shapes.job(active=1, failed=2, conditions=[]),
    "jobset": shapes.jobset(restarts=1, conditions=[]),
    "rayjob": shapes.rayjob(jobDeploymentStatus="Retrying", jobStatus="FAILED", failed=1, endTime=OLD),
    "raycluster": {"kind": "RayCluster", "apiVersion": "ray.io/v1", "metadata": {"name": "c"}, "status": {"state": "ready"}},
    "pytorchjob": shapes.pytorchjob(conditions=[condition("Restarting", "True", "PyTorchJobRestarting")]),
    "trainjob": shapes.trainjob(conditions=[condition("Complete", "False")]),
}  # fmt: skip


def judged(word, owner, *pods):
    return kubernetes_owners.status(kubernetes_owners.KINDS[word], owner, pods, NOW)


@pytest.mark.parametrize("word", LOSSES)
def test_an_owner_that_failed_says_why_by_the_pod_that_failed_first(word):
    found = judged(word, LOSSES[word], KILLED_POD, FAILED_POD)
    assert (found.state, found.exit, found.node) == (S.FAILED, job.ExitStatus(1), "gpu-7")
    gone = judged(word, LOSSES[word])
    assert (gone.state, gone.exit) == (S.FAILED, job.ExitStatus.unseen())


@pytest.mark.parametrize("word", WINS)
def test_an_owner_that_succeeded_is_a_success(word):
    found = judged(word, WINS[word], owned("a", state=ended(0, "Completed"), phase="Succeeded"))
    assert (found.state, found.exit) == (S.SUCCEEDED, job.ExitStatus(0))


@pytest.mark.parametrize("word", AT_WORK)
def test_an_owner_that_starts_its_pods_again_by_itself_is_not_over(word):
    assert not judged(word, AT_WORK[word], FAILED_POD).state.final
    assert judged(word, AT_WORK[word], pod()).state is S.RUNNING


@pytest.mark.parametrize("word", ["job", "jobset", "trainjob", "pytorchjob"])
def test_a_suspended_owner_is_suspended(word):
    owner = {"metadata": {"name": "x"}, "status": {"conditions": [condition("Suspended")]}}
    assert judged(word, owner).state is S.SUSPENDED


def test_an_owner_is_not_over_while_a_pod_of_it_lives():
    ending = owned("b")
    ending["metadata"]["deletionTimestamp"] = "2026-01-31T08:59:30Z"
    assert judged("job", LOSSES["job"], FAILED_POD, ending).state is S.ENDING
    still = shapes.job(active=1, conditions=[condition("Failed", "True", "BackoffLimitExceeded", at=OLD)])
    assert judged("job", still).state is S.ENDING
    target = shapes.job(
        terminating=1, conditions=[condition("FailureTarget", "True", "BackoffLimitExceeded", at=OLD)]
    )
    assert judged("job", target).state is S.ENDING


def test_the_pods_own_word_is_waited_for_when_the_owner_speaks_first():
    early = shapes.job(conditions=[condition("Failed", "True", "BackoffLimitExceeded", at=FRESH)])
    assert judged("job", early, owned("a")).state is S.ENDING
    late = kubernetes_owners.status(kubernetes_owners.KINDS["job"], early, [owned("a")], NOW + 60)
    assert late.state is S.FAILED


def test_pods_of_an_earlier_try_do_not_explain_this_end():
    first = owned("a", state=ended(1, at="2026-01-31T07:10:00Z"), phase="Failed")
    second = owned("b", state=ended(137, "OOMKilled", at="2026-01-31T07:50:00Z"), phase="Failed")
    second["metadata"]["creationTimestamp"] = "2026-01-31T07:11:00Z"
    assert judged("job", LOSSES["job"], first, second).state is S.OUT_OF_MEMORY


def test_a_deadline_is_a_time_limit():
    late = shapes.job(conditions=[condition("Failed", "True", "DeadlineExceeded", at=OLD)])
    assert judged("job", late).state is S.TIME_LIMIT
    ray = shapes.rayjob(
        jobDeploymentStatus="Failed", jobStatus="RUNNING", reason="DeadlineExceeded", endTime=OLD
    )
    assert judged("rayjob", ray).state is S.TIME_LIMIT


def test_a_ray_job_that_a_person_stopped_is_cancelled():
    stopped = shapes.rayjob(jobDeploymentStatus="Complete", jobStatus="STOPPED", endTime=OLD)
    assert judged("rayjob", stopped).state is S.CANCELLED
