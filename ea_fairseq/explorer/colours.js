"use strict";

// Colour scales for the colour-blind, too: viridis for probabilities, red and blue around white for logits.
const VIRIDIS = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"];
const RED_BLUE = ["#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b", "#67001f"];

function table(anchors) {
  const parts = anchors.map((text) => [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16)));
  return Array.from({ length: 256 }, (_, place) => {
    const position = (place / 255) * (parts.length - 1);
    const low = Math.min(Math.floor(position), parts.length - 2);
    return parts[low].map((part, channel) => Math.round(part + (position - low) * (parts[low + 1][channel] - part)));
  });
}

const COLOURS = { probabilities: table(VIRIDIS), logits: table(RED_BLUE) };

// The index of a value in a table of colours, 0 to 255.
function placeOf(value, most, diverging) {
  const part = most === 0 ? 0 : value / most;
  return Math.max(0, Math.min(255, Math.round(255 * (diverging ? (part + 1) / 2 : part))));
}

function gradient(diverging) {
  return `linear-gradient(to right, ${(diverging ? RED_BLUE : VIRIDIS).join(", ")})`;
}
