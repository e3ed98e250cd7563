# SPDX-License-Identifier: GPL-2.0-only
from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bigos.language import LanguageDetector

POLISH = (
    "Sterownik magistrali SPI przelicza żądaną częstotliwość na dzielnik wstępny i końcowy. Jeżeli wynik nie mieści "
    "się w rejestrze, funkcja wypisuje ostrzeżenie i zwraca zero, a przesyłanie danych odbywa się wolniej."
)
ENGLISH = (
    "The driver turns the requested frequency into a pre-divider and a post-divider. When the result does not fit the "
    "register, the function prints a warning and returns zero, and the transfer is slower than asked for."
)
OTHERS = {
    "German": "Der Treiber rechnet die gewünschte Frequenz in zwei Teiler um. Wenn das Ergebnis nicht in das Register "
    "passt, gibt die Funktion eine Warnung aus und liefert null zurück.",
    "French": "Le pilote convertit la fréquence demandée en deux diviseurs. Si le résultat ne tient pas dans le "
    "registre, la fonction affiche un avertissement et renvoie zéro.",
    "Czech": "Ovladač převádí požadovaný kmitočet na dva dělitele. Pokud se výsledek nevejde do registru, funkce "
    "vypíše varování a vrátí nulu, takže přenos je pomalejší.",
    "Spanish": "El controlador convierte la frecuencia pedida en dos divisores. Si el resultado no cabe en el "
    "registro, la función muestra un aviso y devuelve cero.",
    "Russian": "Драйвер переводит запрошенную частоту в два делителя. Если результат не помещается в регистр, функция "
    "выводит предупреждение и возвращает ноль.",
    "Chinese": "驱动程序将请求的频率转换为两个分频器。如果结果不适合寄存器，该函数会打印警告并返回零。",
}


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector()


def test_polish_and_english_texts_are_told_apart(detector: LanguageDetector) -> None:
    assert detector.detect(POLISH) == "pl"
    assert detector.detect(ENGLISH) == "en"


def test_polish_written_without_its_letters_is_polish(detector: LanguageDetector) -> None:
    plain = POLISH.translate(str.maketrans("ąćęłńóśźż", "acelnoszz"))
    assert plain.isascii()
    assert detector.detect(plain) == "pl"


@pytest.mark.parametrize("name", OTHERS)
def test_text_in_another_language_is_neither(detector: LanguageDetector, name: str) -> None:
    assert detector.detect(OTHERS[name]) is None


@pytest.mark.parametrize("text", ["", "   \n", "12 345.67", "0x1f 0x2e", "---- ====", "SPI_IMX_CLKDIV"])
def test_text_without_words_has_no_language(detector: LanguageDetector, text: str) -> None:
    assert detector.detect(text) is None
    assert detector.detect_query(text) is None


def test_english_code_terms_do_not_make_a_polish_text_english(detector: LanguageDetector) -> None:
    assert detector.detect(POLISH + " Zobacz mx51_ecspi_clkdiv(), spi_imx_data i MX51_ECSPI_CTRL w pliku.") == "pl"


def test_a_huge_document_costs_no_more_than_a_sample(detector: LanguageDetector) -> None:
    text = POLISH * 100_000
    detector.detect(POLISH)
    started = time.process_time()
    assert detector.detect(text) == "pl"
    assert time.process_time() - started < 0.1


def test_a_licence_in_english_at_the_top_does_not_name_a_polish_document(detector: LanguageDetector) -> None:
    assert detector.detect(ENGLISH + "\n\n" + POLISH * 20) == "pl"


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("jak ustawić zegar SPI", "pl"),
        ("jak ustawic zegar spi", "pl"),
        ("dma w spi", "pl"),
        ("drukarka", "pl"),
        ("przerwanie GPIO", "pl"),
        ("co to jest DMA", "pl"),
        ("konfiguracja UART w i.MX8", "pl"),
        ("gdzie jest spi_imx_clkdiv", "pl"),
        ("how do I set the SPI clock", "en"),
        ("what is DMA", "en"),
        ("GPIO interrupt handler", "en"),
        ("change the name of a user", "en"),
        ("spi_imx_clkdiv", None),
        ("CONFIG_SPI_IMX=y", None),
        ("fsl,imx8mm-ecspi", None),
        ("MX51_ECSPI_CTRL 0x08", None),
        ("Wie kann ich den Drucker einrichten", None),
        ("как настроить принтер", None),
        ("what does the letter ł stand for in the keymap", "en"),
    ],
)
def test_short_queries(detector: LanguageDetector, query: str, language: str | None) -> None:
    assert detector.detect_query(query) == language


def test_polish_letters_decide_at_once(detector: LanguageDetector) -> None:
    assert detector.detect_query("linux błąd kernel panic") == "pl"


def test_threads_share_one_detector() -> None:
    texts = [POLISH, ENGLISH, OTHERS["German"]] * 40
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: LanguageDetector().detect(text), texts))
    assert found == ["pl", "en", None] * 40


def test_importing_the_module_does_not_load_the_models() -> None:
    code = "import sys, bigos.language; sys.exit('lingua' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
