"""Checks and forms of short texts. Pure: it imports nothing of this package, and any module may import it."""

import re
import socket

# Wider than the Framework API's ^[a-z0-9]{1,63}$ because roles of the Pods source are label values.
_ROLE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

DNS_LABEL_LIMIT = 63
DNS_NAME_LIMIT = 253


def one_line(text: str, limit: int = 300) -> str:
    """Return foreign text fit for one line of a log: without control characters, at most `limit` characters."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return shorten(clean, limit)


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text; an ellipsis stands for the rest."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def size(text: str) -> int:
    """Return the bytes that a text takes in a file or variable."""
    return len(text.encode())


def is_ip(text: object) -> bool:
    """Report whether the value is one IPv4 or IPv6 address and nothing else: it goes into scripts and hosts files."""
    if not isinstance(text, str):
        return False
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def is_dns_name(text: object) -> bool:
    """Report whether the value is a DNS-1123 subdomain, as names of Kubernetes objects and nodes are."""
    # No regular expression: to compile one would take longer than all names of a small gang.
    if not isinstance(text, str) or len(text) > DNS_NAME_LIMIT or not text.isascii() or text != text.lower():
        return False
    return all(
        len(label) <= DNS_LABEL_LIMIT and label.replace("-", "0").isalnum() and label[0] != "-" != label[-1]
        for label in text.split(".")
    )


def bracketed(ip: str) -> str:
    """Return an address as it stands before `:port`: IPv6 in brackets."""
    return f"[{ip}]" if ":" in ip else ip


def canonical_ip(ip: str) -> str:
    """Return an address in the one form that the system writes: `FD00:0::1` becomes `fd00::1`."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    return socket.inet_ntop(family, socket.inet_pton(family, ip))


def is_role_name(text: object) -> bool:
    """Report whether the value can name a role: it becomes a file name, a host name and part of a variable's name."""
    return isinstance(text, str) and _ROLE_NAME.fullmatch(text) is not None


def pod_name(framework: str, role: str, index: int) -> str:
    """Return the name of a Task's Pod, which is the same in every attempt.

    Source: docs/reference/framework-api.md, section 1.
    """
    return f"{framework}-{role}-{index}"
