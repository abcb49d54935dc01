"""Reader of a :class:`~airflow_provider_ha.storage.file_store.FileStore` like objects of other programs."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.storage.file_store import FileStore, StoredFile
from airflow_provider_ha.storage.reading import Listed


class FileStoreReader:
    """An :class:`~airflow_provider_ha.storage.reading.ObjectReader` of the files of a store. Thread-safe.

    :param files: The store.
    """

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._listed: dict[str, StoredFile] = {}

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self._files.uri

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield every file whose key begins with *prefix*.

        :raises StorageUnavailableError: The listing could not be completed.
        """
        for file in self._files.list(prefix):
            self._listed[file.key] = file
            yield Listed(file.key, file.size, file.etag or str(file.mtime))

    def read(self, key: str) -> bytes:
        """Return the bytes of a file as it is now.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read.
        """
        return self._files.read(key)

    def read_range(self, item: Listed, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset* of a file as it was when it was listed.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read, or was replaced since.
        """
        return self._files.read_range(self._listed[item.key], offset, length)
