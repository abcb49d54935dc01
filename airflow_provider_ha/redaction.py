"""Secrets in texts that leave a process: reasons, messages and errors that end up in ZooKeeper, files and task logs.

A script's exception holds the script's arguments to a library: a JDBC URL with its password, an option, a token. Two
kinds are replaced: values that this process knows to be secret, and text in the positions of secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, SecretStr


HIDDEN = "***"
_LOOKED_AT = 50_000  # characters: a reason keeps the first 2000
_SHORT = 6  # characters: a shorter secret is replaced only as a whole word, or it would split other words
_WORDS = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|credentials?|signature"
    r"|(?:access|account|api|private|secret|shared)[._-]?key|(?<![a-z])sig"
    r"|auth[._-]?user[._-]?info|basic[._-]auth(?![._-](?:user|credentials))"  # user:password, of a schema registry
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|\{[^}]*\}|[^\s&;\"'}\]]+)"
_SPACE = r"\s{0,9}"
_EQUALS, _COLON = rf"[\"']?{_SPACE}={_SPACE}", rf"[\"']{_SPACE}:{_SPACE}"
_FLAG = rf"(?<![\w-])--?[\w-]{{0,40}}(?:{_WORDS})[\w.-]{{0,40}}"
_PATTERNS = (
    # scheme://user:password@host
    (re.compile(r"(://[^\s:/@]*:)[^\s/?#]*(?=@)"), rf"\1{HIDDEN}"),
    # The same with a / or another letter in the password that ends a host, unless it is a port: hdfs://host:8020/part@1
    (
        re.compile(
            r"(://[^\s:/@]{0,200}:)(?!\d{1,5}[/?#](?![^\s\"']{0,200}@[\w.-]{1,200}:\d))"
            r"[^\s\"'<>]{1,200}(?=@[\w.\[\]-])"
        ),
        rf"\1{HIDDEN}",
    ),
    # jdbc:oracle:thin:user/password@host
    (re.compile(r"(?i)(jdbc:oracle:[a-z]+:[^\s/@]+/)[^\s@]+(?=@)"), rf"\1{HIDDEN}"),
    # -----BEGIN PRIVATE KEY----- ... -----END
    (
        re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL),
        rf"\1{HIDDEN}",
    ),
    # Authorization: Bearer eyJ..., Authorization: AWS4-HMAC-SHA256 ...
    (re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?)[^\"'\r\n]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)(\bbearer\s+)[\w.~+/=-]{8,}"), rf"\1{HIDDEN}"),
    # password=..., spark.hadoop.fs.s3a.secret.key=..., "password": "...", X-Amz-Signature=...
    (re.compile(rf"(?i)((?:{_WORDS})[\w.-]{{0,80}}(?:{_EQUALS}|{_COLON})){_VALUE}"), rf"\1{HIDDEN}"),
    # A word and its value, as people write it
    (re.compile(rf"(?i)((?:pass(?:word|wd|phrase)|pwd|secret){_SPACE}:{_SPACE}){_VALUE}"), rf"\1{HIDDEN}"),
    # --password ..., ['--password', '...']
    (re.compile(rf"(?i)({_FLAG}(?:[\"'],{_SPACE}[\"']|\s{{1,9}})){_VALUE}"), rf"\1{HIDDEN}"),
    # Names of keys of AWS
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), HIDDEN),
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_SECRET_NAME = re.compile(rf"(?i){_WORDS}")
_USER_INFO = re.compile(r"(?i)user[._-]?info")
# Names that contain a secret's word and hold none: fs.s3a.aws.credentials.provider,
# spark.security.credentials.hive.enabled
_NO_SECRET = ("provider", "enabled", "class", "type", "algorithm", "file", "path", "location")
_PLAIN_VALUES = frozenset({"true", "false"})
_known: set[str] = set()


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return *text* without secrets; long texts are cut. Pure.

    :param secrets: Values that are secret anywhere, also as a part of a URL.
    """
    text = text[:_LOOKED_AT]
    forms = {form for secret in secrets if secret for form in (secret, quote(secret, safe=""), quote_plus(secret))}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _SHORT:
            text = text.replace(form, HIDDEN)
        else:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
    for pattern, replaced in _PATTERNS:
        text = pattern.sub(replaced, text)
    return text


def secrets_of(model: BaseModel) -> set[str]:
    """Return every secret value of a model and its nested models; for ``user:password`` also the password."""
    found: set[str] = set()
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, SecretStr):
            whole = value.get_secret_value()
            found |= {whole, whole.partition(":")[2]} if name.endswith("_auth") else {whole}
        elif isinstance(value, BaseModel):
            found |= secrets_of(value)
    return found - {""}


def secret_values(named: Mapping[str, str]) -> set[str]:
    """Return the values of a conf or an environment whose names indicate a secret.

    For ``user:password`` of a schema registry, also the password.
    """
    found = {
        name: value
        for name, value in named.items()
        if value and value not in _PLAIN_VALUES and _SECRET_NAME.search(name) and not name.lower().endswith(_NO_SECRET)
    }
    passwords = {value.partition(":")[2] for name, value in found.items() if _USER_INFO.search(name)}
    return {*found.values(), *passwords} - {""}


def remember(secrets: Iterable[str]) -> None:
    """Hide these values from now on in every text that this process publishes."""
    _known.update(secrets)


def public(text: str) -> str:
    """Return *text* as it may leave this process: without secrets, including the values of :func:`remember`."""
    return redact(text, _known)


class PublicText:
    """Text in pieces, made public piece by piece: a key that spans pieces stays hidden in all.

    The text may begin inside a key.
    """

    def __init__(self) -> None:
        self._first = True
        self._in_key = False

    def __call__(self, piece: str) -> str:
        """Return *piece*, at most 50,000 characters, without secrets."""
        begin, end = _KEY_BEGIN.search(piece), _KEY_END.search(piece)
        begins_inside = self._first and end is not None and (begin is None or end.start() < begin.start())
        self._first = False
        if self._in_key or begins_inside:
            if end is None:
                return ""
            piece = (HIDDEN if begins_inside else "") + piece[end.start() :]
        last_begin = max((match.start() for match in _KEY_BEGIN.finditer(piece)), default=-1)
        last_end = max((match.start() for match in _KEY_END.finditer(piece)), default=-1)
        self._in_key = last_begin > last_end
        return public(piece)
