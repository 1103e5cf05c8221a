"""Secrets are masked in whatever shape they are printed; what only looks like one stays readable."""

import pytest

from runward.core import redact

_HF = "hf_" + "AbCdEfGh1jKlMnOpQrStUvWxYz"
_GH = "ghp_" + "a1B2c3D4e5" * 3
_HEX = "0123456789abcdef" * 2 + "01234567"
_KEY = "Eby8vdM02xNOcqFl" + "quwJPLlmEtlCDXJ1OUzFT50/uSRZ+6IFsuFq2UVErCz4I6tq" + "=="
_BODY = "MIIEpAIBAAKCAQEA7bq98Xk2vLmN0pQrStUvWxYzAbCdEfGhIjKlMnOpQrStUvWx"
_SECRETS = [
    ("aws_access_key_id = {}", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("aws_secret_access_key = {}", _KEY),
    ("export AWS_SESSION_TOKEN={}", "FwoGZXIvYXdzEBYaDJ3vC1234567890"),
    ("s3fs key=x secret={}", "wJalrXUtnFEMIK7MDENG"),
    ('{{"type": "service_account", "private_key_id": "{}"}}', _HEX),
    ('{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----"}}', "MIIEvQIBADAN"),
    ("{}", _BODY),
    ("DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=x", _KEY),
    ("https://acme.blob.core.windows.net/c/x?sv=2031&sig={}", "abcDEF%2Bghi%3D"),
    ("https://storage.example/b?X-Goog-Signature={}&x=1", "abcdef0123456789"),
    ("login --token {}", _HF),
    ("Loaded {} from the environment", _HF),
    ("python train.py --hf_token {} --lr 1", "short1tok"),
    ("python train.py --wandb-key {} --lr 1", "0123456789abcdef"),
    ("python train.py --password '{}' --lr 1", "My Secret Pw9"),
    ("wandb login {}", _HEX),
    ("wandb: Appending key for api.wandb.ai: {}", _HEX),
    ("git clone https://x-access-token:{}@git.example/a/b", _GH),
    ("git clone https://{}@git.example/a/b", _GH),
    ("OPENAI_API_KEY={}", "sk-" + "proj-abcDEF1234567890"),
    ("Incorrect API key provided: {}", "sk-" + "abcd1234567890efghijkl"),
    ("Authorization: Bearer {}", "abcdef0123456789.ghijkl"),
    ("headers={{'Authorization': 'Basic {}'}}", "dXNlcjpwYXNzd29yZA=="),
    ("headers={{'X-Api-Key': '{}'}}", "q1w2e3r4t5y6"),
    ("curl -u bob:{} https://x/y", "hunter22pass"),
    ("docker login -u jo -p {} reg.example", "s3cretpass"),
    ("sshpass -p {} ssh h", "hunter22"),
    ("mysql://root:{}@db:3306/x", "p%40ssw0rd"),
    ("redis://:{}@redis:6379/0", "s3cr3tpw"),
    ("HTTPS_PROXY=http://user:{}@proxy:3128", "proxypass1"),
    ("post to https://hooks.slack.com/services/{}", "T0/B0/x1y2z3"),
    ("post to https://discord.com/api/webhooks/123456789012345678/{}", "AbCdEfGhIj1"),
    ("bot 123456789:{}", "A" * 30 + "b1_-c"),
    ("kubectl create secret generic x --from-literal=key={}", "sup3rs3cret"),
    ('"auths": {{"reg.example": {{"auth": "{}"}}}}', "am86czNjcmV0cGFzcw=="),
    ("COMET_API_KEY {}", "abcdefghijklmnop1234"),
    ("SECRET_KEY_BASE={}", _HEX),
    ("{{'password': '{}', 'user': 'jo'}}", "hunter2"),
    ("Set-Cookie: sid={}", "abcdef0123456789"),
    ("jwt {}", "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc"),
]
_READABLE = [
    f"commit {_HEX}",
    f"sha256:{_HEX}{_HEX[:24]}",
    "/data/tokens/shard_00012.bin",
    "num_tokens: 8192, max_tokens=4096, token_type_ids: [0, 1]",
    "eos_token: </s> pad_token='<pad>' bos_token=<s> unk_token: [UNK]",
    "pad_token=eos --pad-token eos --token-budget 4096 --tokenizer-path /x/tok",
    "basic training configuration",
    "Bearer authentication failed",
    "RuntimeError: Missing key in checkpoint state_dict: model.layers.31.w3.weight.",
    "wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
    "NCCL INFO comm 0x55d1 commId 0x14de91f5a6ab0c4b busId 53000",
    "GPU-8a1b2c3d-1111-2222-3333-444455556666",
    "PermissionError: [Errno 13] Permission denied: '/home/jo/.ssh/id_rsa'",
    "api_key not configured (no-tty)",
    "The provided token has expired.",
    'Error: secret "hf-token" not found',
    "s3://bucket/key/with/token/part tcp://10.0.0.1:29500",
]


@pytest.mark.parametrize(("line", "secret"), _SECRETS)
def test_a_secret_is_masked_and_the_line_around_it_stays(line, secret):
    masked = redact.text(line.format(secret))
    assert secret not in masked
    assert redact.MASK in masked


@pytest.mark.parametrize("line", _READABLE)
def test_what_only_looks_like_a_secret_stays(line):
    assert redact.text(line) == line
