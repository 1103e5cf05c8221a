"""Services that will be there soon, whatever their words look like, and those that nobody will ever reach."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(10, 60, 10))
_HELPS, _IN_VAIN = ("restart", "restart_elsewhere", "wait"), ("change", "hold")
_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 4, in <module>\n    go()\n'


@pytest.mark.parametrize(
    "last",
    [
        "psycopg.OperationalError: connection failed: FATAL:  the database system is not yet accepting connections",
        "redis.exceptions.ClusterDownError: CLUSTERDOWN The cluster is down",
        "confluent_kafka.KafkaException: KafkaError{code=COORDINATOR_NOT_AVAILABLE,val=15}",
        "pymongo.errors.OperationFailure: NotWritablePrimary: node is not in primary state",
        "asyncpg.exceptions.TooManyConnectionsError: remaining connection slots are reserved for superuser",
        "google.api_core.exceptions.Forbidden: 403 GET https://bq.example/q: Quota exceeded: 100 jobs per second",
        "botocore.exceptions.ClientError: An error occurred (ProvisionedThroughputExceededException) when calling the PutItem operation: slow",
        "github.GithubException.RateLimitExceededException: 403 you exceeded a secondary rate limit",
        "RuntimeError: reward service is still warming up",
        "lmgr.LicenseError: FLEXnet Licensing error:-4,132",
        "azure.core.exceptions.ResourceExistsError: There is already an active lease on the blob\nErrorCode:LeaseAlreadyPresent",
        "OSError: [Errno 26] Text file busy: '/w/bin/sim'",
        "consul.ConsulException: 500 No cluster leader",
        "kazoo.exceptions.SessionExpiredError",
        "sqlalchemy.exc.OperationalError: (pymysql.err.OperationalError) (1213, 'Deadlock found when trying to get lock; try restarting transaction')",
        "psycopg.errors.SerializationFailure: could not serialize access due to read/write dependencies",
        "llm.APIStatusError: Error code: 529 - {'error': {'type': 'overloaded_error'}}",
        "google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'",
        "AzureMLError: (AllocationFailed) The region does not have sufficient capacity now: we do not have sufficient capacity for it",
    ],
    ids=[
        "database",
        "store",
        "broker",
        "primary",
        "slots",
        "rate-403",
        "throughput",
        "secondary",
        "warm",
        "seats",
        "lease",
        "text",
        "leader",
        "session",
        "deadlock",
        "serialize",
        "overloaded",
        "exhausted",
        "capacity",
    ],
)
def test_what_is_not_there_yet_full_or_throttling_is_waited_for(last: str) -> None:
    assert judging.answer(_STEPS + _TRACE + last + "\n")[1] in _HELPS


@pytest.mark.parametrize(
    "last",
    [
        'psycopg.OperationalError: connection failed: FATAL:  password authentication failed for user "ml"',
        "google.api_core.exceptions.Forbidden: 403 GET https://bq.example/q: Permission denied on resource project x",
        "google.api_core.exceptions.Forbidden: 403 Quota 'CPUS' exceeded.  Limit: 0.0 in region r.",
        "lmgr.LicenseError: License Manager Error -9",
        "requests.exceptions.SSLError: HTTPSConnectionPool(host='t', port=80): Max retries exceeded with url: /a (Caused by SSLError(SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1)')))",
        "urllib3.exceptions.SSLError: hostname '10.3.0.1' doesn't match 'store.corp'",
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='your-proxy', port=3128): Max retries exceeded with url: /m",
        "RuntimeError: cannot reach 10.0.0.9:29500: packets are dropped by the firewall",
        "socket.gaierror: [Errno -2] Name or service not known: '<store-host>'",
        "wandb.errors.CommError: project nlp/x not found during upsertBucket (Error 404: Not Found)",
        "cassandra.cluster.NoHostAvailable: ('Unable to connect', {'10.0.0.3': AuthenticationFailed('Bad credentials')})",
    ],
    ids=[
        "password",
        "rights",
        "no-quota",
        "no-license",
        "scheme",
        "name",
        "placeholder",
        "firewall",
        "placeholder-of-a-name",
        "no-project",
        "credentials",
    ],
)
def test_what_never_passes_is_not_waited_for(last: str) -> None:
    assert judging.answer(_TRACE + last + "\n")[1] in _IN_VAIN


@pytest.mark.parametrize(
    "said",
    [
        "WARNING:urllib3.connectionpool:Connection pool is full, discarding connection: s3.example. Connection pool size: 10",
        "WARN Utils: Your hostname, b7 resolves to a loopback address: 127.0.1.1; using 10.0.0.5 instead (on interface eth0)",
        "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 71 (apt)",
        "GPU 3 clocks 400 MHz, Throttled: power cap",
        "the evaluation needs about 20 min, its time limit is 60 min",
        "wait-for-db: FATAL:  the database system is starting up",
        "[rollout] health: 503 engine is still loading",
        "All licenses are used under the terms of their owners",
        "2 checks failed for maintenance reasons: none of ours",
    ],
    ids=["pool", "spark", "apt", "clocks", "enough-time", "polled", "polled-by-http", "terms", "reasons"],
)
def test_what_is_said_in_passing_explains_no_end(said: str) -> None:
    assert judging.answer(said + "\n" + _TRACE + "ValueError: 3 heads for 7 groups\n")[0] in (
        "exception",
        "config_error",
    )
    assert judging.answer(said + "\n" + _STEPS, 0) == ("none", "none")


_CALL = 'grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.{}\n\tdetails = "{}"\n>\n'


@pytest.mark.parametrize(
    ("log", "actions"),
    [
        (_STEPS + _TRACE + _CALL.format("UNAVAILABLE", "GOAWAY received"), _HELPS),
        (_STEPS + _TRACE + _CALL.format("ABORTED", "the operation was aborted"), _HELPS),
        (_TRACE + _CALL.format("PERMISSION_DENIED", "no role"), _IN_VAIN),
        (
            _TRACE + _CALL.format("RESOURCE_EXHAUSTED", "Sent message larger than max (9000 vs. 4000)"),
            _IN_VAIN,
        ),
        ("srun: error: Unable to create step for job 9: Requested nodes are busy\n", _HELPS),
        (
            "srun: error: Unable to create step for job 9: Requested node configuration is not available\n",
            _IN_VAIN,
        ),
        ("sbatch: error: AssocMaxSubmitJobLimit\n", _HELPS),
        ("sbatch: error: AssocMaxWallDurationPerJobLimit\n", _IN_VAIN),
        ("kex_exchange_identification: Connection closed by remote host\nn4: lost\n", _HELPS),
        ("Host key verification failed.\nn4: lost\n", _IN_VAIN),
        (
            _TRACE
            + "google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for quota metric 'TPU' and limit 0\n",
            _IN_VAIN,
        ),
        (
            'Error from server (Conflict): Operation cannot be fulfilled on pods "a": the object has been modified\n',
            _HELPS,
        ),
        (_TRACE + "chdb.ServerException: DB::Exception: Too many concurrent queries for user ml\n", _HELPS),
        (_TRACE + "ValueError: too many concurrent heads for one group\n", _IN_VAIN),
    ],
    ids=[
        "goaway",
        "aborted",
        "denied",
        "too-large",
        "busy",
        "never",
        "submitted",
        "too-long",
        "turned-away",
        "host-key",
        "quota-of-none",
        "conflict",
        "queries",
        "heads",
    ],
)
def test_what_passes_and_what_does_not_in_the_words_of_one_program(
    log: str, actions: tuple[str, ...]
) -> None:
    assert judging.answer(log)[1] in actions


_REFUSED = "vecdb.ConnectError: Error 111 connecting to localhost:6333. Connection refused.\n"


@pytest.mark.parametrize(
    ("log", "actions"),
    [
        (
            "[db] QDRANT_URL was not given, defaulting to http://localhost:6333\n" + _TRACE + _REFUSED,
            _IN_VAIN,
        ),
        ("[db] connecting to http://localhost:6333\n" + _TRACE + _REFUSED, _HELPS),
        (
            "[db] QDRANT_URL was not given, defaulting to http://localhost:6333\n"
            + _STEPS
            + _TRACE
            + _REFUSED,
            _HELPS,
        ),
        ("[log] LOG_URL unset, using http://localhost:9200\n" + _TRACE + _REFUSED, _HELPS),
    ],
    ids=["by-default", "as-set", "was-there", "of-another"],
)
def test_a_default_address_at_which_nobody_ever_answered_is_a_setting(
    log: str, actions: tuple[str, ...]
) -> None:
    assert judging.answer(log)[1] in actions


_EXPIRED = "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the GetObject operation: The provided token has expired.\n"
_TAKEN = (
    "RuntimeError: The server socket has failed to bind to [::]:29400 (errno: 98 - Address already in use).\n"
)


@pytest.mark.parametrize(
    ("log", "actions"),
    [
        (_EXPIRED + "vault-agent: renewed credentials for role train\n", _HELPS),
        ("vault-agent: renewed credentials for role train\n" + _EXPIRED, _IN_VAIN),
        (_TAKEN + "tcp 10.0.0.4:29400 10.0.0.5:40112 TIME_WAIT\n", _HELPS),
        (_TAKEN + "tcp 10.0.0.4:29400 10.0.0.5:40112 LISTEN\n", _IN_VAIN),
    ],
    ids=["renewed-after", "renewed-before", "given-back", "held"],
)
def test_what_has_passed_already_is_begun_again(log: str, actions: tuple[str, ...]) -> None:
    assert judging.answer(_TRACE + log)[1] in actions


_ID = "[rank2]: RuntimeError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0\n"


def test_who_waits_in_the_store_for_a_first_rank_that_still_works_would_again() -> None:
    work = "[rank0]: tokenizing the corpus: 31%\n"
    assert judging.answer(work + _ID + work.replace("31", "32"))[1] == "change"
    assert judging.answer(_ID)[1] == "restart"


_MEETS = "worker-1: [W socket.cpp:755] [c10d] The client socket has failed to connect to [127.0.0.1]:29500 (errno: 111 - Connection refused).\nworker-1: torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (127.0.0.1, 29500).\n"


def test_who_looks_for_the_first_of_several_nodes_on_its_own_is_set_up_wrong() -> None:
    others = "".join(f"worker-{n}: loading config\n[worker-{n}:0]: begin\n" for n in (0, 1))
    assert judging.answer(_MEETS)[1] == "restart"
    assert judging.answer(others + _MEETS.replace("errno: 111", "errno: 99"))[1] in ("restart", "change")


_LIVENESS = "Normal  Killing  kubelet  Container fit failed liveness probe, will be restarted\n"


def test_a_probe_that_does_not_wait_for_the_start_never_will() -> None:
    loading = "Loading checkpoint shards:  12%|#     | 3/25\n"
    assert judging.answer(loading + _LIVENESS, 137)[1] == "hold"
    assert judging.answer(loading + _STEPS + _LIVENESS, 137)[1] == "restart"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "[rank1]: publishing address 127.0.1.1:4011: connect failed from the others\n",
            ("config_error", "change"),
        ),
        (
            "[db] the export would need 90 min, its time limit is 30 min: leaving\n",
            ("config_error", "change"),
        ),
        ("attempt 3 ended: kernel OOM-killed process 71 at step 90\n", ("host_oom", "change")),
        (
            "head of w.pt: version https://git-lfs.github.com/spec/v1\n" + _TRACE + "ValueError: w.pt\n",
            ("checkpoint_corrupt", "change"),
        ),
        (
            _TRACE + "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge\n",
            ("checkpoint_corrupt", "change"),
        ),
        (
            "Resuming from checkpoint /ck/step_900\n"
            + _TRACE
            + "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge\n",
            ("checkpoint_corrupt", "resume_previous"),
        ),
        (
            _TRACE
            + "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer\n",
            ("checkpoint_corrupt", "resume_previous"),
        ),
    ],
    ids=["published", "budget", "killed", "pointer", "no-weights", "own-checkpoint", "cut-short"],
)
def test_words_that_tell_what_was_set_wrong(log: str, expected: tuple[str, str]) -> None:
    assert judging.answer(log) == expected


_ODD = "WARNING:megatron.core.rerun_state_machine:Unexpected result nan on rank 5 at iteration #70 invocation #1 (message='found NaN in local forward loss calculation')!\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "First rerun: unexpected result is not reproducible within the tolerance (2.1 != nan)!\n",
            "restart_elsewhere",
        ),
        (
            "First rerun: unexpected result is reproducible within the tolerance (nan = nan)\nNeed to rerun on a different GPU to verify correctness\n",
            "restart_elsewhere",
        ),
        (
            "Need to rerun on a different GPU to verify correctness\nSecond rerun: unexpected result is reproducible on a different GPU, therefore it was likely correct\n",
            "hold",
        ),
        (
            "Second rerun: unexpected result is not reproducible on a different GPU, therefore was likely incorrect\n",
            "restart_elsewhere",
        ),
        ("", "hold"),
    ],
    ids=["transient", "asks", "right", "persistent", "bare"],
)
def test_a_step_that_is_computed_again_tells_whose_fault_it_was(log: str, expected: str) -> None:
    assert judging.answer(_ODD + log)[1] == expected


def test_a_launch_on_the_nodes_that_are_left_is_a_new_attempt() -> None:
    lost = "attempt 1 ended: node r3 is unreachable\n"
    refused = "[rank0]: AssertionError: train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 96 != 4 * 1 * 20\n"
    assert judging.answer(lost + "restarting on the remaining nodes\n" + refused) == (
        "config_error",
        "change",
    )
    assert judging.answer(refused.replace("Assertion", "Value") + lost)[0] in ("node_failure", "config_error")
    assert judging.answer(lost)[0] == "node_failure"
