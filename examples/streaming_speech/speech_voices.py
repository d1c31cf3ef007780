"""Voices to test with, made of numbers: vowels as a throat and a mouth form them, with pauses whose places are known. 16 kHz, -1 to 1."""

import pathlib
import typing
import wave

import numpy as np

RATE = 16_000
LOUDNESS = 0.5
VOWELS = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}
"""The frequencies that the mouth lets through, in Hz."""
WIDTHS = (80, 100, 140)
WEIGHTS = (1.0, 0.6, 0.3)

Samples = np.ndarray[typing.Any, np.dtype[np.float32]]
Wave = np.ndarray[typing.Any, np.dtype[np.float64]]


def voice(seed: int) -> Samples:
    """Two to three sentences of 1 to 2 s with pauses of 0.8 to 1.5 s around them; each seed is another voice that says something else."""
    chance = np.random.default_rng(seed)
    pitch = chance.uniform(90, 140)
    parts = [silence(chance)]
    for _ in range(chance.integers(2, 4)):
        parts += [sentence(chance, pitch), silence(chance)]
    samples = np.concatenate(parts)
    samples += chance.normal(0, 0.001, len(samples))
    heard: Samples = samples.astype(np.float32)
    return heard


def read(path: pathlib.Path) -> Samples:
    """A recording: a WAV file of 16 kHz, one channel, 16 bits.

    Raises:
        ValueError: it is another kind of file.
    """
    with wave.open(str(path)) as file:
        kind = file.getframerate(), file.getnchannels(), file.getsampwidth()
        if kind != (RATE, 1, 2):
            raise ValueError(
                f"{path} has {kind[0]} Hz, {kind[1]} channels and {8 * kind[2]} bits, and must have 16000 Hz, 1 channel and 16 bits: "
                f"ffmpeg -i {path.name} -ar 16000 -ac 1 -c:a pcm_s16le converted.wav"
            )
        content = file.readframes(file.getnframes())
    recording: Samples = np.frombuffer(content, np.int16).astype(np.float32)
    recording /= 1 << 15
    return recording


def silence(chance: np.random.Generator) -> Wave:
    """A pause."""
    return np.zeros(int(chance.uniform(0.8, 1.5) * RATE))


def sentence(chance: np.random.Generator, pitch: float) -> Wave:
    """Syllables without pauses."""
    samples: Wave = np.concatenate(
        [
            syllable(chance, pitch, VOWELS[name])
            for name in chance.choice(list(VOWELS), chance.integers(5, 10))
        ]
    )
    spoken: Wave = samples * (LOUDNESS / np.abs(samples).max())
    return spoken


def syllable(chance: np.random.Generator, pitch: float, formants: tuple[int, ...]) -> Wave:
    """A hiss and a vowel whose pitch falls a little: a saw tooth, of which the mouth lets some frequencies through."""
    length = int(chance.uniform(0.15, 0.25) * RATE)
    seconds = np.arange(length) / RATE
    hertz = pitch * (1 + 0.03 * np.sin(2 * np.pi * 5 * seconds) + np.linspace(0.05, -0.05, length))
    throat = 2 * (np.cumsum(hertz) / RATE % 1) - 1 + chance.normal(0, 0.02, length)
    frequency = np.fft.rfftfreq(length, 1 / RATE)
    mouth = sum(
        weight / (1 + ((frequency - formant) / (width / 2)) ** 2) ** 0.5
        for formant, width, weight in zip(formants, WIDTHS, WEIGHTS, strict=True)
    )
    vowel: Wave = np.fft.irfft(np.fft.rfft(throat) * mouth, length)
    envelope = np.minimum(1, np.minimum(seconds, seconds[-1] - seconds) / 0.05)
    hiss = chance.normal(0, 0.02, int(0.04 * RATE))
    whole: Wave = np.concatenate([hiss * np.hanning(len(hiss)), vowel * envelope])
    return whole
