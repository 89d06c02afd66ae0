"""Why a call came to nothing: one calm sentence for each way it can, saying what happened and how to mend it."""

import errno
import ssl

import aiohttp

from herdbeat.runners.http.guard import ConnectAttempt

_NO_ROUTE_ERRNOS = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL})


class CallFailed(Exception):
    """The call is over, without an answer or with half of one. Its text is the sentence to store."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


def explain_request_error(error: Exception, attempt: ConnectAttempt) -> CallFailed:
    """What an error of a request means, in words that hold no address and no header: both may be secret."""
    if attempt.blocked:
        return CallFailed(attempt.describe_block())
    return CallFailed(_describe_request_error(error, attempt.host))


def explain_broken_response(error: Exception, status: int, received: int) -> CallFailed:
    """The answer began and did not end. What of it came is not taken for the whole."""
    if _is_encoding_error(error):
        detail = "The body of the answer cannot be decoded: it is not in the encoding that its headers name."
    else:
        detail = f"The connection broke in the middle of the answer, after {received} bytes of its body."
    return CallFailed(f"{detail} The endpoint, or a proxy before it, has to mend that.", status)


def _describe_request_error(error: Exception, host: str) -> str:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        return _describe_connect_error(error, host)
    match error:
        case aiohttp.InvalidURL():
            return f'"{host}" is not a host that can be called. Write the url with a full name or a full address.'
        case aiohttp.ClientResponseError() if _is_encoding_error(error):
            return f"{host} answers in an encoding that was not asked for: gzip and deflate are. It has to mend that."
        case aiohttp.ClientResponseError():
            return f"{host} did not answer in HTTP: {_first_line(error.message)}. Is it the right port?"
        case aiohttp.ClientConnectionError():
            return f"{host} closed the connection without an answer. Look at the log of the endpoint."
        case ValueError():
            return f"The request to {host} cannot be made. Look for letters in url and headers that HTTP does not take."
        case _:
            return f"The call of {host} failed: {type(error).__name__}."


def _describe_connect_error(
    error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError, host: str
) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _describe_untrusted_certificate(error.certificate_error, host)
        case aiohttp.ClientConnectorDNSError():
            why = (error.os_error.strerror or "no answer").rstrip(".")
            return f'No address was found for "{host}": {why}. Correct the url, or mend the name service here.'
        case aiohttp.ClientSSLError():
            return f"{host} did not agree on TLS: {_tls_reason(error.os_error)}. Does that port speak https?"
        case _:
            return _describe_unreachable(error, host)


def _describe_unreachable(error: aiohttp.ClientConnectorError, host: str) -> str:
    number = error.os_error.errno
    if number == errno.ECONNREFUSED:
        return f"Nothing listens on port {error.port} of {host}. Start the service, or correct the url."
    if number in _NO_ROUTE_ERRNOS:
        return f"There is no way from here to {host}. Look at the network of this machine."
    return f"{host} could not be reached: {error.os_error.strerror or error.os_error}. Look at the network."


def _describe_untrusted_certificate(error: Exception, host: str) -> str:
    why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error)
    return (
        f"The certificate of {host} is not trusted: {_first_line(why).rstrip('.')}."
        " Renew it, or name the file of its authority in SSL_CERT_FILE."
    )


def _tls_reason(error: OSError) -> str:
    found = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(found).lower().replace("_", " ")


def _is_encoding_error(error: Exception) -> bool:
    return "ontent-encoding" in f"{error} {error.__cause__}"


def _first_line(text: str) -> str:
    return next((line.strip().rstrip(":") for line in text.splitlines() if line.strip()), "")[:200]
