"""Compression and encryption of stored bytes.

Bytes that are neither compressed nor encrypted are stored unchanged. Compressed and encrypted bytes have a prefix of
two bytes: a byte with which MessagePack never begins, and a letter for the operation.
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
_NONCE_SIZE: Final = 12
"""The size in bytes of the random nonce of AES-GCM. Each encrypted value has its own nonce."""
_MIN_COMPRESSED: Final = 256
"""The minimum size in bytes of data that is compressed."""
_PROBE: Final = b"statewright"
"""Encrypted to compare keys."""
LARGEST: Final = 256 << 20
"""The maximum size in bytes of data that is compressed. Compressed data that expands to more is damaged."""


class Encryptor:
    """Encrypts and compresses bytes before they are stored, and reverses this when they are read."""

    def __init__(self, key: bytes | None = None, *, compress: bool = False) -> None:
        """Without a key, bytes are not encrypted. `compress` is the option of the database."""
        self._cipher: Any = None if key is None else _cipher(key)
        self._compress = compress

    @property
    def encrypts(self) -> bool:
        """True if there is a key."""
        return self._cipher is not None

    def encrypt(self, data: bytes, *, compress: bool = False) -> bytes:
        """Return the bytes to store. With `compress`, they are compressed if the database has the option `compress`."""
        if compress and self._compress and _MIN_COMPRESSED <= len(data) <= LARGEST:
            data = _COMPRESSED + zlib.compress(data, 6)
        if self._cipher is None:
            return data
        nonce = os.urandom(_NONCE_SIZE)
        return _ENCRYPTED + nonce + self._cipher.encrypt(nonce, data, None)

    def decrypt(self, stored: bytes) -> bytes:
        """Return the original bytes.

        Raises WrongEncryptionKey if they cannot be decrypted, and DamagedDatabase if they cannot be decompressed.
        """
        if stored[:1] != _MARK:
            return stored
        if stored[:2] == _ENCRYPTED:
            stored = self._decrypt(stored[2:])
        if stored[:2] != _COMPRESSED:
            return stored
        decompressor = zlib.decompressobj()
        try:
            data = decompressor.decompress(stored[2:], LARGEST)
        except zlib.error as error:
            raise DamagedDatabase(f"compressed bytes cannot be read: {error}") from error
        if not decompressor.eof:
            reason = f"they expand to more than {LARGEST} bytes" if len(data) >= LARGEST else "they are truncated"
            raise DamagedDatabase(f"compressed bytes cannot be read: {reason}")
        return data

    def without_encryption(self, stored: bytes) -> bytes:
        """Return stored bytes without their encryption, but still compressed. `encrypt` can store them again."""
        return self._decrypt(stored[2:]) if stored[:2] == _ENCRYPTED else stored

    def has_key_of(self, other: Encryptor) -> bool:
        """Return whether this one reads what the other one stores, and the reverse."""
        try:
            return self.encrypts == other.encrypts and self.decrypt(other.encrypt(_PROBE)) == _PROBE
        except WrongEncryptionKey:
            return False

    def _decrypt(self, stored: bytes) -> bytes:
        if self._cipher is None:
            raise WrongEncryptionKey("The database is encrypted, and no key was given. Pass key=.")
        try:
            return self._cipher.decrypt(stored[:_NONCE_SIZE], stored[_NONCE_SIZE:], None)
        except Exception as error:
            raise WrongEncryptionKey(
                "Stored data cannot be decrypted, because the key is wrong or the database is damaged. Check key=."
            ) from error


def _cipher(key: bytes) -> Any:
    if len(key) not in (16, 24, 32):
        raise InvalidConfig(
            f"The key has {len(key)} bytes. Pass 16, 24 or 32 random bytes, e.g. os.urandom(32), and keep them."
        )
    with optional("Encryption needs", extra="crypto"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(key)
