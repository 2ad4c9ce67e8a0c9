"""The proxy of the fault tests leaves nothing behind: a socket that it forgot would fail whichever test runs next."""

import gc
import socket
import warnings

import pytest

from localcluster import Cluster
from tests.support.beside.proxy import Proxy

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize("clients_leave_first", [True, False])
def test_clients_in_their_tls_handshake_are_closed_with_the_proxy(cluster: Cluster, clients_leave_first: bool) -> None:
    with warnings.catch_warnings(record=True, action="always") as seen:
        with Proxy(cluster) as proxy:
            clients = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(20)]
            for client in clients[: len(clients) * clients_leave_first]:
                client.close()
        for client in clients:
            client.close()
        gc.collect()
    assert [str(one.message) for one in seen] == []
