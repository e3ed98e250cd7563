# SPDX-License-Identifier: GPL-2.0-only
"""The house put together: the only place that knows which embedder and which store there are."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bigos import fingerprint, private
from bigos.config import Config
from bigos.embedders import Window
from bigos.fingerprint import HEADER_TOKENS
from bigos.serving import Serving
from bigos.stores import MadeWith
from bigos.succession import Succession

if TYPE_CHECKING:
    from bigos.embedders import Embedder
    from bigos.embedders.calibration import Calibration, NeutralEmbedder
    from bigos.embedders.ollama import OllamaEmbedder
    from bigos.embedders.openai import OpenAIEmbedder
    from bigos.language import LanguageDetector
    from bigos.lexicon import Lexicon
    from bigos.loaders import OcrPolicy
    from bigos.pipeline import Event, IngestReport, IngestRequest
    from bigos.preparation import PreparationSettings
    from bigos.search import SearchRequest, SearchResult, ShowRequest
    from bigos.stores import Stats, Store, StoredChunk
    from bigos.stores.server import ServerStore
    from bigos.tokenizer import Tokenizer
    from bigos.types import Record

_log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds of a service's absence that work is worth: a restart in the middle costs a pause."""
SHORT_PATIENCE = 10.0
"""The same for who waits for an answer."""


class Library:
    """One collection with the model that fills it. Parts are made when first used; a context manager.

    `patience` is how many seconds a service may be away before it is given up; None takes PATIENCE and `qdrant_wait`.
    """

    def __init__(self, config: Config, patience: float | None = None) -> None:
        self.config = config
        self._patience = patience
        self._opening = threading.RLock()
        self.succession = Succession(config, self.store_dir, self.open_server)
        """What may take the place of the index that serves."""
        self._serving = Serving(self._open_store, self._wanted, self.succession)

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the model's memory and the store's lock."""
        self._serving.close()
        for name in ("embedder", "raw_embedder", "embedding_service"):
            part = self.__dict__.pop(name, None)
            if part is not None:
                part.close()

    @property
    def tokenizer_file(self) -> Path:
        """XLM-R's vocabulary: one file for every model we know."""
        return self.config.models_dir / "tokenizer" / "bge-m3-tokenizer.json"

    @property
    def store_dir(self) -> Path:
        """Where the embedded store keeps the collection."""
        return self.config.data_dir / "collections" / self.config.collection

    def place(self, kind: Literal["embedded", "server"]) -> str:
        """Where the store of a kind is, for a reader: without what a URL may carry of user and password."""
        if kind == "embedded":
            return str(self.store_dir)
        return f"{re.sub('//[^/]*@', '//', self.config.qdrant_url)}, collection {self.config.collection}"

    @property
    def store_place(self) -> str:
        """Where the configured store is."""
        return self.place(self.config.store)

    @property
    def new_index_advice(self) -> str:
        """What to do about an index that was made with something else than the configuration says."""
        return "bigos ingest --rebuild, or set what it was made with"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Its file is read at the first text; EmbedderError then when it is missing or damaged."""
        from bigos.tokenizer import Tokenizer

        return Tokenizer.at(self.tokenizer_file)

    @cached_property
    def embedder(self) -> NeutralEmbedder:
        """The configured model with its language means, which are computed at the first use of a service's model.

        Raises EmbedderError when a file is missing or damaged, or the service does not answer.
        """
        from bigos.embedders import calibration

        raw = self.raw_embedder
        file = self.calibration_file
        if self.config.embedder != "onnx" and not file.exists():
            self.calibrate(over=False)
        return calibration.NeutralEmbedder(raw, calibration.load_calibration(file, raw))

    @cached_property
    def raw_embedder(self) -> Embedder:
        """The configured model without its language means."""
        if self.config.embedder != "onnx":
            return self.embedding_service
        from bigos.embedders.onnx import OnnxEmbedder

        return OnnxEmbedder(self._model_dir, self.tokenizer, self.config.threads or os.cpu_count() or 1)

    @cached_property
    def embedding_service(self) -> OllamaEmbedder | OpenAIEmbedder:
        """The configured model behind HTTP. Nothing is asked of it yet."""
        from bigos.embedders import services

        return services.configured(self.config, self.tokenizer, self._patience or PATIENCE)

    @property
    def _model_dir(self) -> Path:
        from bigos.embedders.onnx import MODEL_NAME

        return self.config.models_dir / MODEL_NAME

    @property
    def calibration_file(self) -> Path:
        """Where the language means of the configured model are: beside the in-process model, else in data_dir."""
        from bigos.embedders import calibration

        folder = self._model_dir if self.config.embedder == "onnx" else self.config.data_dir / "calibrations"
        return calibration.calibration_file(folder, self.raw_embedder.fingerprint)

    def calibrate(self, *, over: bool = True) -> Calibration:
        """Compute the configured model's language means and keep them. Seconds, with a model that is quick.

        Without `over` the file of another process that was quicker stays.

        Raises EmbedderError when the calibration texts are missing, or as the model does.
        """
        from bigos.embedders import calibration

        file = self.calibration_file
        _log.info("computing the language means of %s", self.raw_embedder.fingerprint)
        texts = calibration.read_calibration_set(self.config.calibration_dir)
        texts = calibration.fitted(texts, self.tokenizer, self.raw_embedder.max_tokens)
        means = calibration.calibrate(self.raw_embedder, texts)
        calibration.save_calibration(means, file, over=over)
        return means

    @cached_property
    def detector(self) -> LanguageDetector:
        """Tells Polish from English."""
        from bigos.language import LanguageDetector

        return LanguageDetector()

    @cached_property
    def lexicon(self) -> Lexicon:
        """What a question's words may be in the other language. Raises ConfigError for lists that are none.

        Without the usual folder, as outside of a checkout, there is none; one that was named has to be there.
        """
        from bigos.lexicon import read_lexicon

        return read_lexicon(self.config.lexicon_dir, required=self.config.lexicon_dir.parent != self.config.data_dir)

    @property
    def window(self) -> Window:
        """Tokens a chunk and tokens shared: the configuration's, else the model's, never more than the model takes.

        Raises EmbedderError when it takes too few for any chunk.
        """
        return fingerprint.window(self.config, self.embedder.window, self.embedder.max_tokens)

    @property
    def code_window(self) -> Window:
        """As `window`, of source code."""
        return fingerprint.window(self.config, self.embedder.code_window, self.embedder.max_tokens)

    @property
    def fingerprint(self) -> str:
        """What the collection was made with: equal fingerprints can be searched together."""
        return fingerprint.compose(self.embedder.fingerprint, self.window, self.code_window)

    def expected_fingerprint(self) -> str:
        """What `fingerprint` will be, told from the model's files without opening it, so that a look stays cheap.

        A service has to be asked. Raises EmbedderError when files are missing or damaged, the language means among
        them, or it does not answer.
        """
        from bigos.embedders import calibration, onnx

        if self.config.embedder != "onnx":
            calibration.load_calibration(self.calibration_file, self.raw_embedder)  # a look computes none
            return self.fingerprint
        identity = onnx.identify(self._model_dir)
        means = calibration.load_calibration(
            calibration.calibration_file(self._model_dir, identity.fingerprint), identity
        )
        windows = [fingerprint.window(self.config, own, onnx.MAX_TOKENS) for own in (onnx.WINDOW, onnx.CODE_WINDOW)]
        return fingerprint.compose(calibration.neutral_fingerprint(identity, means), *windows)

    def verify_model(self) -> str:
        """Compare the in-process model's file with its checksum; what it is.

        Raises EmbedderError when it is not whole.
        """
        from bigos.embedders import onnx

        manifest = onnx.verify(self._model_dir)
        return f"{manifest['name']} {manifest['precision']}, {manifest['bytes'] / 1e6:,.0f} MB, sha256 as built"

    @property
    def store(self) -> Store:
        """The configured store, guarded by the fingerprint. Nothing is opened or created before it is used."""
        return self._serving.fitting

    @property
    def reading_store(self) -> Store:
        """For what only reads and compares no vectors: the store if it is open, else one without fingerprint guard."""
        return self._serving.reading

    def _open_store(self, fingerprint: str | None, dimension: int | None) -> Store:
        return self.open_store(self.config.store, fingerprint, dimension)

    def _wanted(self) -> MadeWith:
        """What an index of this configuration is made with. Threads that ask at the same time load one model."""
        with self._opening:
            return MadeWith(self.fingerprint, self.embedder.dimension)

    def open_store(self, kind: Literal["embedded", "server"], fingerprint: str | None, dimension: int | None) -> Store:
        """A store of either kind as the configuration describes it; the caller closes it.

        Without a fingerprint it takes any collection, but only to look at it or to forget.
        """
        if kind == "server":
            return self.open_server(fingerprint, dimension)
        from bigos.stores.embedded import EmbeddedStore

        return EmbeddedStore(self.store_dir, fingerprint, dimension, lock_timeout=self.config.lock_timeout)

    def open_server(self, fingerprint: str | None, dimension: int | None, collection: str | None = None) -> ServerStore:
        """See `open_store`."""
        from bigos.stores.server import ServerStore

        config = self.config
        return ServerStore(
            config.qdrant_url,
            collection or config.collection,
            fingerprint,
            dimension,
            api_key=config.qdrant_api_key,
            ca_file=config.qdrant_ca_file,
            grpc=config.qdrant_grpc,
            grpc_port=config.qdrant_grpc_port,
            timeout=config.qdrant_timeout,
            wait=min(config.qdrant_wait, self._patience or config.qdrant_wait),
            shards=config.qdrant_shards,
            replicas=config.qdrant_replicas,
        )

    def ingest(
        self,
        request: IngestRequest,
        on_event: Callable[[Event], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> IngestReport:
        """Run the pipeline over the request's paths; see `pipeline.run`."""
        from bigos import admission, last_run, own, pipeline
        from bigos.ocr_cache import OcrCache

        denied, keeps = admission.denied(self.config), own.own_places(self.config)
        request = replace(request, exclude=(*self.config.exclude, *request.exclude), denied=denied, own=keeps)
        embedder, _ = self._parts()
        settings = replace(self.preparation_settings(request.ocr), allow_secrets=request.allow_secrets)

        def run(store: Store) -> IngestReport:
            report = pipeline.run(
                request,
                store=store,
                embedder=embedder,
                settings=settings,
                fingerprint=self.fingerprint,
                workers=self.config.workers,
                pages=OcrCache(self.config.cache_dir / "ocr"),
                on_event=on_event or pipeline.ignore,
                stop=stop,
            )
            if not (request.dry_run or report.interrupted):
                report.remains = store.compact()  # what a `forget` that was cut off has left
                if store.made_with() is not None:  # where there is no index, nothing is left behind
                    last_run.note(self.config, self.store_place)
            return report

        return self._serving.use(run)

    def preparation_settings(self, ocr: OcrPolicy | None) -> PreparationSettings:
        """How files are read and cut; `ocr` as the configuration says when None. Tidies up after runs before."""
        from bigos import scratch
        from bigos.loaders import LoadOptions
        from bigos.ocr import Tesseract
        from bigos.preparation import PreparationSettings
        from bigos.source import languages

        folder = self.config.cache_dir / "scratch"
        scratch.remove_left_over(folder)
        return PreparationSettings(
            tokenizer_file=self.tokenizer_file,
            window=self.window,
            code_window=self.code_window,
            header_tokens=HEADER_TOKENS,
            max_file_bytes=self.config.max_file_bytes,
            max_document_bytes=self.config.max_document_bytes,
            memory_mb=self.config.parse_memory_mb,
            timeout=self.config.parse_timeout,
            options=LoadOptions(
                ocr=ocr or self.config.ocr,
                scratch=folder,
                recogniser=Tesseract(self.config.ocr_languages, self.config.cache_dir / "ocr", folder),
                max_code_bytes=self.config.max_code_bytes,
                code_names=languages.configured(self.config.code_names),
            ),
        )

    def forget(self, paths: Sequence[Path], *, dry_run: bool = False) -> IngestReport:
        """Remove files and folders from the index; needs no model. See `forgetting.forget`."""
        from bigos import files, forgetting
        from bigos.ocr_cache import OcrCache

        places = [place for path in paths for place in files.named(path)]
        report = forgetting.forget(places, self.reading_store, OcrCache(self.config.cache_dir / "ocr"), dry_run=dry_run)
        if not dry_run:
            # Afterwards: what is made of the old index from now on no longer has them.
            self.succession.forget(places)
        return report

    def search(self, request: SearchRequest) -> SearchResult:
        """Find the fragments nearest in meaning; see `search.search`.

        While an index is being made for the configuration, the old one answers if it was made with the same model.
        """
        from bigos import search

        embedder, detector = self._parts()
        result, notice = self._serving.answer(
            lambda store: search.search(request, store, embedder, detector, self.lexicon)
        )
        return replace(result, notice=notice)

    def _parts(self) -> tuple[NeutralEmbedder, LanguageDetector]:
        """What a run works with. Threads that ask at the same time get the same parts, not a model each."""
        with self._opening:
            return self.embedder, self.detector

    def show(self, request: ShowRequest) -> list[StoredChunk]:
        """Read chunks where they stand; needs no model. See `search.show`."""
        from bigos import search

        return search.show(request, self.reading_store)

    def stats(self) -> Stats:
        """Counts of the collection; needs no model."""
        return self.reading_store.stats()

    def records(self) -> dict[str, Record]:
        """Every document's Record by id; needs no model."""
        return self.reading_store.known()


def open_library(config: Config, patience: float | None = None) -> Library:
    """A library over the configured parts; nothing is loaded yet. `patience` as in Library."""
    private.close_to_others(config)
    return Library(config, patience)
