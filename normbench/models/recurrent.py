"""A GRU that translates, with a norm on every summed input of its cells: the recurrent setting of the LayerNorm and RMSNorm papers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["GRUTranslator", "NormedGRUCell"]


class NormedGRUCell(nn.Module):
    """Update a state h by an input x, both normed before they are added (arXiv:1607.06450, supplementary material, GRU).

        z, r = sigmoid(norm(W x) + norm(U h))       two gates, normed together over 2 * width
        c    = tanh(norm(V x) + r * norm(T h))      over width
        h'   = (1 - z) * h + z * c

    The norms' biases are the only ones, and all four norms are their own modules, made by `norm(width)`.
    """

    def __init__(self, inputs: int, width: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        # One linear map for each norm, as in the papers' code: its output goes nowhere else.
        self.input_gates, self.input_candidate = nn.Linear(inputs, 2 * width, bias=False), nn.Linear(inputs, width, bias=False)
        self.state_gates, self.state_candidate = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, width, bias=False)
        self.input_gates_norm, self.input_candidate_norm = norm(2 * width), norm(width)
        self.state_gates_norm, self.state_candidate_norm = norm(2 * width), norm(width)

    def read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the normed parts (..., 2 * width) and (..., width) that x (..., inputs) adds: of all steps at once if need be."""
        return self.input_gates_norm(self.input_gates(x)), self.input_candidate_norm(self.input_candidate(x))

    def step(self, gates: Tensor, candidate: Tensor, state: Tensor) -> Tensor:
        """Return the next state (batch, width) from what `read` made of one step's input and the last state."""
        update, reset = torch.sigmoid(gates + self.state_gates_norm(self.state_gates(state))).chunk(2, -1)
        new = torch.tanh(candidate + reset * self.state_candidate_norm(self.state_candidate(state)))
        return torch.lerp(state, new, update)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """Return the next state (batch, width) from x (batch, inputs) and the state (batch, width)."""
        return self.step(*self.read(x), state)


class GRUTranslator(nn.Module):
    """Translate as RNNSearch does (arXiv:1409.0473), a model of arXiv:1910.07467: an encoder for each direction, attention, a decoder.

    The decoder begins from the mean of the encoders' states, as in Nematus (arXiv:1703.04357). The three cells have four norms each.
    Every step is a handful of small operators, so time is the steps' and hardly the width's. `norm` makes a norm of a width.
    """

    def __init__(
        self,
        width: int = 1000,
        embedding: int = 620,
        vocabulary: int = 30_000,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.width = width
        self.source_embedding, self.target_embedding = nn.Embedding(vocabulary, embedding), nn.Embedding(vocabulary, embedding)
        self.encoder_forward, self.encoder_backward = NormedGRUCell(embedding, width, norm), NormedGRUCell(embedding, width, norm)
        self.bridge = nn.Linear(2 * width, width)
        self.attention_memory, self.attention_state = nn.Linear(2 * width, width), nn.Linear(width, width, bias=False)
        self.attention_score = nn.Linear(width, 1, bias=False)
        self.decoder = NormedGRUCell(embedding + 2 * width, width, norm)
        self.readout = nn.Linear(width + 2 * width + embedding, embedding)
        self.head = nn.Linear(embedding, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits (batch, target tokens, vocabulary) of the token after each of target.

        source (batch, source tokens) and target (batch, target tokens) are token ids, int64.
        """
        memory = self._encode(source)
        keys = self.attention_memory(memory)
        state = torch.tanh(self.bridge(memory.mean(1)))
        embedded = self.target_embedding(target)
        outputs = []
        for word in embedded.unbind(1):
            scores = self.attention_score(torch.tanh(keys + self.attention_state(state)[:, None]))
            context = (scores.softmax(1) * memory).sum(1)
            state = self.decoder(torch.cat((word, context), -1), state)
            outputs.append(torch.cat((state, context, word), -1))
        logits: Tensor = self.head(torch.tanh(self.readout(torch.stack(outputs, 1))))
        return logits

    def _encode(self, source: Tensor) -> Tensor:
        """Return the states (batch, tokens, 2 * width) of both directions side by side."""
        embedded = self.source_embedding(source)
        directions = (
            self._run(self.encoder_forward, embedded),
            self._run(self.encoder_backward, embedded.flip(1)).flip(1),
        )
        return torch.cat(directions, -1)

    def _run(self, cell: NormedGRUCell, inputs: Tensor) -> Tensor:
        gates, candidates = cell.read(inputs)
        state, states = inputs.new_zeros(inputs.shape[0], self.width), []
        for gate, candidate in zip(gates.unbind(1), candidates.unbind(1), strict=True):
            state = cell.step(gate, candidate, state)
            states.append(state)
        return torch.stack(states, 1)
