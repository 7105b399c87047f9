"""What is no address, or no Ray cluster, is said at once."""

from __future__ import annotations

import pytest

from normbench.errors import UsageError
from normbench.fleet.address import check_address, parse_address


def test_host_and_port_are_told_apart():
    assert parse_address("10.0.0.1:6379") == ("10.0.0.1", 6379)
    assert parse_address("[::1]:6379") == ("::1", 6379)


@pytest.mark.parametrize("text", ["", "head", "ray://head:10001", "head:", "head:0", "head:70000", ":6379", "a:b:1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="is not of the form host:port, such as"):
        parse_address(text)


def test_port_where_nobody_listens_is_one_error():
    with pytest.raises(UsageError, match=r"no Ray cluster is reached at '127\.0\.0\.1:1': .*refused.*ray start --head"):
        check_address("127.0.0.1:1")
