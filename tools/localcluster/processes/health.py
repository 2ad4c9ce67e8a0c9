"""Health endpoints of components on this machine, asked while `up` waits for them."""

import ssl
import urllib.error
import urllib.request

_TIMEOUT_SECONDS = 2.0


def check_health(url: str) -> bool | str:
    """Return True if a health endpoint answers 200, else the status that it answers with.

    The certificate of the endpoint is self-signed and not checked. Proxies of the environment are not used, because the
    endpoint is on this machine.

    Raises:
        OSError: Nothing listens there, or the answer does not come in time.
    """
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(url, timeout=_TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return f"HTTP {error.code}"
