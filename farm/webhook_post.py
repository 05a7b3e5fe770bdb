"""Posts to other people's servers, and to nobody else's: a webhook must not be a way into the farm's own network.

The name is looked up once, every address is judged, and the connection goes to the judged address, so a name that
means another host a moment later gains nothing. Redirects are not followed, and no proxy is used.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import urllib3

from farm.errors import PolicyError

SECONDS = 10.0
Resolve = Callable[[str, int], list[str]]


def addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, in the order of preference; OSError when it has none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def may_be_called(address: str) -> bool:
    """Whether an address is one of the public network: no loopback, link-local, private, multicast or reserved one."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return (found.is_global and not found.is_multicast) and (mapped is None or mapped.is_global)


class WebhookPost:
    """The `post` of a WebhookSender.

    Parameters
    ----------
    private_hosts: allow every address (`FARM_WEBHOOK_PRIVATE_HOSTS`).
    """

    def __init__(self, *, private_hosts: bool, resolve: Resolve = addresses, seconds: float = SECONDS) -> None:
        self._private_hosts = private_hosts
        self._resolve = resolve
        self._timeout = urllib3.Timeout(connect=seconds, read=seconds)

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """The HTTP status. PolicyError for an address that must not be called; else what the network raises."""
        parts = urlsplit(url)
        secure, host = parts.scheme == "https", parts.hostname or ""
        port = parts.port or (443 if secure else 80)
        pool = self._pool(self._judged(host, port), port, host if secure else None)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            answer = pool.request(
                "POST", target, body=body, headers={**headers, "Host": parts.netloc.rpartition("@")[2]},
                redirect=False, retries=False, timeout=self._timeout, preload_content=False,
            )  # fmt: skip
            answer.release_conn()
            return answer.status
        finally:
            pool.close()

    def _judged(self, host: str, port: int) -> str:
        found = self._resolve(host, port)
        if not self._private_hosts and not all(may_be_called(address) for address in found):
            raise PolicyError(
                "The webhook's host is not on the public network.",
                where="webhook",
                do="Use a public host, or set FARM_WEBHOOK_PRIVATE_HOSTS.",
            )
        return found[0]

    def _pool(self, address: str, port: int, secure_host: str | None) -> urllib3.HTTPConnectionPool:
        if secure_host is None:
            return urllib3.HTTPConnectionPool(address, port)
        return urllib3.HTTPSConnectionPool(
            address, port, cert_reqs="CERT_REQUIRED", assert_hostname=secure_host, server_hostname=secure_host
        )
