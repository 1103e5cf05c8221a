"""What is told of what kubectl prints."""

import pytest

from runward.backends.k8s import api
from runward.core import kubernetes

NOISE = 'E1128 13:21:23.659027    4801 memcache.go:265] "Unhandled Error" err="couldn\'t get the list"\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            NOISE * 2 + "error: You must be logged in to the server\n",
            "error: You must be logged in to the server",
        ),
        (NOISE, NOISE.strip()),
        ("", ""),
        ("W1128 is no line of its log\n", "W1128 is no line of its log"),
    ],
    ids=["noise-before", "nothing-else", "empty", "alike"],
)
def test_kubectls_own_log_does_not_hide_what_it_says(words, said):
    assert kubernetes.said(words) == said


def test_without_a_kubeconfig_the_words_say_so():
    told = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
    assert "there is no kubeconfig" in str(api.refusal_in_words("kubectl", NOISE + told))
    assert "not accepted" in str(api.refusal_in_words("kubectl", NOISE + "error: You must be logged in"))
