"""Encryption and compression of stored bytes."""

from __future__ import annotations

import builtins
import os
import random
from typing import Any

import pytest

from statewright.errors import DamagedDatabase, InvalidConfig, WrongEncryptionKey
from statewright.storage.encryption import Encryptor

KEY = bytes(range(32))
LONG = b"a repeated sentence " * 100
PLAIN = [b"", b"\x80", b"\xa5hello", LONG, random.Random(1).randbytes(2000).replace(b"\xc1", b"")]


def encryptors() -> list[Encryptor]:
    return [Encryptor(key, compress=compress) for key in (None, KEY) for compress in (False, True)]


@pytest.mark.parametrize("data", PLAIN, ids=len)
@pytest.mark.parametrize("compress", [False, True])
def test_encrypted_bytes_can_be_decrypted(data: bytes, compress: bool) -> None:
    assert [encryptor.decrypt(encryptor.encrypt(data, compress=compress)) for encryptor in encryptors()] == [data] * 4


def test_bytes_are_unchanged_without_a_key_and_compression() -> None:
    assert Encryptor().encrypt(LONG, compress=True) == LONG
    assert Encryptor(compress=True).encrypt(LONG) == LONG


def test_long_bytes_are_compressed_and_short_ones_are_not() -> None:
    encryptor = Encryptor(compress=True)
    assert len(encryptor.encrypt(LONG, compress=True)) < len(LONG) / 10
    assert encryptor.encrypt(b"a" * 100, compress=True) == b"a" * 100
    assert len(Encryptor(KEY, compress=True).encrypt(LONG, compress=True)) < len(LONG) / 10


def test_compressed_bytes_can_be_read_without_the_option_to_compress() -> None:
    assert Encryptor().decrypt(Encryptor(compress=True).encrypt(LONG, compress=True)) == LONG
    assert Encryptor(KEY).decrypt(Encryptor(KEY, compress=True).encrypt(LONG, compress=True)) == LONG


def test_encryption_hides_content_and_never_repeats_its_output() -> None:
    encryptor = Encryptor(KEY)
    first, second = encryptor.encrypt(b"secret"), encryptor.encrypt(b"secret")
    assert first != second
    assert b"secret" not in first + second
    assert (encryptor.encrypts, Encryptor().encrypts) == (True, False)


@pytest.mark.parametrize("size", [16, 24, 32])
def test_a_key_can_have_16_24_or_32_bytes(size: int) -> None:
    encryptor = Encryptor(os.urandom(size))
    assert encryptor.decrypt(encryptor.encrypt(b"x")) == b"x"


@pytest.mark.parametrize("size", [0, 1, 31, 33])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(InvalidConfig, match=f"key has {size} bytes"):
        Encryptor(bytes(size))


@pytest.mark.parametrize(
    ("encryptor", "message"), [(Encryptor(), "no key was given"), (Encryptor(bytes(32)), "key is wrong")]
)
def test_decrypting_without_the_right_key_is_refused(encryptor: Encryptor, message: str) -> None:
    with pytest.raises(WrongEncryptionKey, match=message):
        encryptor.decrypt(Encryptor(KEY).encrypt(b"secret"))


@pytest.mark.parametrize("cut", [2, 10, 14, 20, -1])
def test_truncated_encrypted_bytes_are_refused(cut: int) -> None:
    stored = Encryptor(KEY).encrypt(b"secret")
    with pytest.raises(WrongEncryptionKey, match="the database is damaged"):
        Encryptor(KEY).decrypt(stored[:cut])


@pytest.mark.parametrize("position", [2, 13, 14, -1])
def test_changed_encrypted_bytes_are_refused(position: int) -> None:
    stored = bytearray(Encryptor(KEY).encrypt(b"secret"))
    stored[position] ^= 1
    with pytest.raises(WrongEncryptionKey):
        Encryptor(KEY).decrypt(bytes(stored))


def test_changed_compressed_bytes_raise_damaged_database() -> None:
    stored = Encryptor(compress=True).encrypt(LONG, compress=True)
    for damaged in (stored[:-5], stored[:2] + b"nothing", stored[:2]):
        with pytest.raises(DamagedDatabase, match="cannot be read"):
            Encryptor().decrypt(damaged)


def test_unencrypted_bytes_can_be_read_with_a_key() -> None:
    assert Encryptor(KEY).decrypt(b"\xa5hello") == b"\xa5hello"


def test_a_missing_cryptography_package_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidConfig, match=r"statewright\[crypto\]"):
        Encryptor(KEY)
