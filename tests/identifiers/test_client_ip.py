"""The client's address is read from the right, after all trusted proxies. A client cannot choose it."""

from __future__ import annotations

import ipaddress

import pytest
from django.test import RequestFactory, override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules.identifiers.client_ip import client_ip, trusted_proxies

PROXY = "10.0.0.2"
NETWORKS = ["10.0.0.0/8", "2001:db8:ffff::/48"]


def address(peer=PROXY, forwarded=None, **headers):
    request = RequestFactory().get("/", **headers)
    request.META["REMOTE_ADDR"] = peer
    if peer is None:
        del request.META["REMOTE_ADDR"]
    if forwarded is not None:
        request.META["HTTP_X_FORWARDED_FOR"] = forwarded
    return client_ip(request)


@pytest.fixture
def hops(settings):
    def choose(number):
        settings.RATELIMIT_RULES_PROXY_HOPS = number

    return choose


@pytest.fixture
def trust(settings):
    def choose(*entries):
        settings.RATELIMIT_RULES_TRUSTED_PROXIES = list(entries)

    return choose


@pytest.mark.parametrize("number", [None, 0])
def test_no_proxy_is_configured_so_no_header_is_believed(hops, number):
    hops(number)
    assert address("203.0.113.5", "192.0.2.1") == "203.0.113.5"


@pytest.mark.parametrize(
    ("number", "forwarded", "expected"),
    [
        (1, "198.51.100.9", "198.51.100.9"),
        (1, "192.0.2.1, 198.51.100.9", "198.51.100.9"),
        (1, "  192.0.2.1 ,  198.51.100.9  ", "198.51.100.9"),
        (2, "192.0.2.1, 198.51.100.9, 10.0.0.3", "198.51.100.9"),
        (2, "198.51.100.9,unix:", "198.51.100.9"),
        # The server joins two header lines to one chain.
        (1, "192.0.2.1,192.0.2.2,198.51.100.9", "198.51.100.9"),
        (1, ",,198.51.100.9", "198.51.100.9"),
    ],
)
def test_hops_count_from_the_right(hops, number, forwarded, expected):
    hops(number)
    assert address(PROXY, forwarded) == expected


@pytest.mark.parametrize(
    ("number", "forwarded"),
    [
        (1, None),
        (1, ""),
        (1, "   "),
        (1, "unknown"),
        (1, "192.0.2.1, unknown"),
        (1, "192.0.2.1, garbage"),
        (1, "192.0.2.1, "),
        (1, "192.0.2.1, 300.1.1.1"),
        (1, "192.0.2.1, 198.51.100.9:port"),
        (1, "192.0.2.1, 198.51.100.9:80:80"),
        (1, "192.0.2.1, [198.51.100.9"),
        (1, "192.0.2.1, 198.51.100.09"),
        (1, "192.0.2.1, " + "9" * 10_000),
        (2, "198.51.100.9"),
        (3, "192.0.2.1, 198.51.100.9"),
        (2, "_hidden, 198.51.100.9"),
    ],
)
def test_chain_too_short_or_no_address_means_the_peer_itself(hops, number, forwarded):
    hops(number)
    assert address(PROXY, forwarded) == PROXY


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("198.51.100.7:54321", "198.51.100.7"),
        ("[198.51.100.7]:54321", "198.51.100.7"),
        ("[2001:db8::5]:443", "2001:db8::5"),
        ("[2001:db8::5]", "2001:db8::5"),
        ("2001:db8::5", "2001:db8::5"),
        ("2001:0DB8:0:0:0:0:0:5", "2001:db8::5"),
        ("2001:db8::443", "2001:db8::443"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:443", "fe80::1"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("[::ffff:198.51.100.7]:80", "198.51.100.7"),
        ("::ffff:c633:6407", "198.51.100.7"),
    ],
)
def test_every_way_to_write_an_address_is_the_same_client(hops, entry, expected):
    """Report 3: the address has a port."""
    hops(1)
    assert address(PROXY, entry) == expected
    hops(None)
    assert address(entry) == expected


@pytest.mark.parametrize("peer", ["", None, "   ", "unix:", "garbage", b"", 7])
def test_unusable_peer_is_no_address_and_a_header_may_still_tell(hops, peer):
    """Report 1: gunicorn with nginx as its proxy, on a unix socket."""
    assert address(peer) is None
    hops(1)
    assert address(peer, "203.0.113.7") == "203.0.113.7"
    assert address(peer, "unknown") is None
    assert address(peer) is None


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.5", "192.0.2.1", "203.0.113.5"),
        (PROXY, "192.0.2.1, 198.51.100.9", "198.51.100.9"),
        (PROXY, "192.0.2.1, 198.51.100.9, 10.0.0.3, 10.9.9.9", "198.51.100.9"),
        (PROXY, "198.51.100.9, ::ffff:10.0.0.3", "198.51.100.9"),
        ("::ffff:10.0.0.2", "198.51.100.9", "198.51.100.9"),
        ("10.0.0.2:4711", "198.51.100.9", "198.51.100.9"),
        ("2001:db8:ffff::1", "198.51.100.9", "198.51.100.9"),
        (PROXY, "10.0.0.4, 10.0.0.3", "10.0.0.4"),
        (PROXY, None, PROXY),
        (PROXY, "192.0.2.1, unknown", PROXY),
        (PROXY, "192.0.2.1, , 10.0.0.3", PROXY),
        (PROXY, "192.0.2.1, unix:", PROXY),
        ("", "192.0.2.1", None),
    ],
)
def test_trusted_networks_are_passed_until_the_first_stranger(trust, peer, forwarded, expected):
    trust(*NETWORKS)
    assert address(peer, forwarded) == expected


@pytest.mark.parametrize("peer", ["", None, "unix:", "/run/gunicorn.sock"])
def test_unix_socket_peer_is_trusted_when_named(trust, peer):
    trust("unix")
    assert address(peer, "192.0.2.1, 198.51.100.9") == "198.51.100.9"
    assert address(peer, "198.51.100.9, unix:") == "198.51.100.9"
    assert address(peer, "198.51.100.9, ") is None
    assert address("203.0.113.5", "192.0.2.1") == "203.0.113.5"


def test_networks_and_hops_together_pass_only_trusted_proxies_and_no_more_than_the_hops(trust, hops):
    trust(*NETWORKS)
    hops(2)
    assert address(PROXY, "192.0.2.1, 198.51.100.9, 10.0.0.3") == "198.51.100.9"
    # A client that avoids the outer proxy counts by its own address, not by the claimed one.
    assert address(PROXY, "192.0.2.1, 198.51.100.9") == "198.51.100.9"
    assert address("203.0.113.5", "192.0.2.1, 10.0.0.3") == "203.0.113.5"
    assert address(PROXY, "198.51.100.9") == PROXY
    hops(1)
    assert address(PROXY, "192.0.2.1, 10.0.0.3") == "10.0.0.3"


def test_another_header_can_carry_the_address(settings, hops):
    hops(1)
    settings.RATELIMIT_RULES_CLIENT_IP_HEADER = "X-Real-IP"
    assert address(PROXY, "192.0.2.1", HTTP_X_REAL_IP="198.51.100.9") == "198.51.100.9"
    assert address(PROXY, "192.0.2.1") == PROXY


def test_entry_that_is_no_network_trusts_no_proxy_and_is_logged(trust, caplog):
    trusted_proxies.cache_clear()
    trust("10.0.0.0/8", "nginx")
    assert address(PROXY, "198.51.100.9") == "198.51.100.9"
    assert address("nginx", "198.51.100.9") is None
    assert [record.message for record in caplog.records] == [
        "RATELIMIT_RULES_TRUSTED_PROXIES: 'nginx' is ignored. It is neither a network nor 'unix'"
    ]


def test_proxies_are_known_with_blanks_around_them_and_by_mapped_networks(trust):
    trust(" 10.0.0.0/8", "::ffff:192.0.2.0/120", " unix ")
    for peer in (PROXY, "192.0.2.9", "::ffff:192.0.2.9", ""):
        assert address(peer, "198.51.100.9") == "198.51.100.9"


def test_one_network_as_a_string_is_one_network(settings):
    settings.RATELIMIT_RULES_TRUSTED_PROXIES = "10.0.0.0/8"
    assert address(PROXY, "198.51.100.9") == "198.51.100.9"


def test_a_number_of_proxies_from_the_environment_is_a_number(hops):
    hops("1")
    assert address(PROXY, "192.0.2.1, 198.51.100.9") == "198.51.100.9"


ENTRIES = st.one_of(
    st.ip_addresses().map(str),
    st.tuples(st.ip_addresses(v=4), st.integers(0, 70000)).map(lambda pair: f"{pair[0]}:{pair[1]}"),
    st.ip_addresses(v=6).map(lambda entry: f"[{entry}]:443"),
    st.sampled_from(["", " ", "unknown", "unix:", "10.0.0.3", "::ffff:10.0.0.4", "[", "]:", "%", "fe80::1%"]),
    st.text(max_size=30),
)


@given(
    peer=st.one_of(st.none(), ENTRIES),
    claimed=st.lists(ENTRIES, max_size=4),
    genuine=st.ip_addresses(v=4, network="198.51.100.0/24"),
    number=st.integers(-1, 3),
    networks=st.sampled_from([[], NETWORKS, ["unix"]]),
)
def test_any_header_gives_an_address_and_never_an_exception(peer, claimed, genuine, number, networks):
    with override_settings(
        RATELIMIT_RULES_PROXY_HOPS=None if number < 0 else number, RATELIMIT_RULES_TRUSTED_PROXIES=networks
    ):
        found = address(peer, ", ".join([*claimed, str(genuine)]))
    assert found is None or str(ipaddress.ip_address(found)) == found


@given(claimed=st.lists(ENTRIES, max_size=4), genuine=st.ip_addresses(v=4, network="198.51.100.0/24"))
def test_claims_to_the_left_of_our_proxys_entry_change_nothing(claimed, genuine):
    """Report 2: the left-most entry is trusted."""
    forwarded = ", ".join([*claimed, str(genuine)])
    with override_settings(RATELIMIT_RULES_PROXY_HOPS=1):
        assert address(PROXY, forwarded) == str(genuine)
    with override_settings(RATELIMIT_RULES_TRUSTED_PROXIES=NETWORKS):
        assert address(PROXY, forwarded) == str(genuine)


def test_an_untrusted_proxy_header_is_logged_once_a_minute(rf, settings, caplog):
    for _ in range(3):
        assert client_ip(rf.get("/", HTTP_X_FORWARDED_FOR="192.0.2.1", REMOTE_ADDR="10.0.0.2")) == "10.0.0.2"
    assert len([record for record in caplog.records if "no setting trusts it" in record.getMessage()]) == 1
    settings.RATELIMIT_RULES_PROXY_HOPS = 1
    caplog.clear()
    assert client_ip(rf.get("/", HTTP_X_FORWARDED_FOR="192.0.2.1", REMOTE_ADDR="10.0.0.2")) == "192.0.2.1"
    assert not caplog.records
