"""Stored bytes made smaller, or unreadable for others.

What is neither is stored as it is. Otherwise it begins with a byte that no MessagePack value begins with, and a letter
that says what was done.
"""

from __future__ import annotations

import os
import zlib
from typing import Any, Final

from statewright.errors import DamagedDatabase, InvalidConfig, WrongEncryptionKey
from statewright.extras import optional

_MARK: Final = b"\xc1"
_COMPRESSED: Final = _MARK + b"z"
_ENCRYPTED: Final = _MARK + b"e"
_NONCE: Final = 12
"""Bytes of a nonce of AES-GCM, drawn for each value."""
_WORTHWHILE: Final = 256
"""Bytes below which nothing is compressed."""
LARGEST: Final = 256 << 20
"""Bytes above which nothing is compressed, so that what expands to more was never written by us."""


class Encryptor:
    """Closes what is stored, and opens it."""

    def __init__(self, key: bytes | None = None, *, compress: bool = False) -> None:
        self._cipher: Any = None if key is None else _cipher(key)
        self._compress = compress

    @property
    def encrypts(self) -> bool:
        return self._cipher is not None

    def encrypt(self, data: bytes, *, compress: bool = False) -> bytes:
        """The bytes as they are stored. Those of older checkpoints are compressed if the database is told to."""
        if compress and self._compress and _WORTHWHILE <= len(data) <= LARGEST:
            data = _COMPRESSED + zlib.compress(data, 6)
        if self._cipher is None:
            return data
        nonce = os.urandom(_NONCE)
        return _ENCRYPTED + nonce + self._cipher.encrypt(nonce, data, None)

    def decrypt(self, stored: bytes) -> bytes:
        """Return the original bytes. Raises WrongEncryptionKey, or DamagedDatabase if they were altered."""
        if stored[:1] != _MARK:
            return stored
        if stored[:2] == _ENCRYPTED:
            stored = self._decrypted(stored[2:])
        if stored[:2] != _COMPRESSED:
            return stored
        decompressor = zlib.decompressobj()
        try:
            opened = decompressor.decompress(stored[2:], LARGEST)
        except zlib.error as error:
            raise DamagedDatabase(f"compressed bytes cannot be read: {error}") from error
        if not decompressor.eof:
            reason = f"they hold more than {LARGEST} bytes" if len(opened) >= LARGEST else "they are cut off"
            raise DamagedDatabase(f"compressed bytes cannot be read: {reason}")
        return opened

    def _decrypted(self, stored: bytes) -> bytes:
        if self._cipher is None:
            raise WrongEncryptionKey("The database is encrypted, and no key was given. Pass key=.")
        try:
            return self._cipher.decrypt(stored[:_NONCE], stored[_NONCE:], None)
        except Exception as error:
            raise WrongEncryptionKey(
                "What is stored cannot be decrypted: the key is another one, or the file is damaged."
            ) from error


def _cipher(key: bytes) -> Any:
    if len(key) not in (16, 24, 32):
        raise InvalidConfig(f"The key has {len(key)} bytes. Give 16, 24 or 32, e.g. os.urandom(32), and keep them.")
    with optional("Encryption needs", extra="crypto"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(key)
