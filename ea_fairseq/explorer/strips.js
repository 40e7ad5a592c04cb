"use strict";

// A series drawn along the axes of a map: a line for each of its channels, all on one scale.
const STRIP = 48; // pixels across
const CHANNEL_COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"];

// Draws the channels, a step in the middle of each cell, from `along` on; across they take a strip that ends at `edge`.
function drawStrip(pen, series, { along, edge, cell, upright }) {
  const values = series.flat().filter(Number.isFinite);
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  const across = (value) => edge - 2 - (high > low ? ((value - low) / (high - low)) * (STRIP - 4) : (STRIP - 4) / 2);
  pen.lineWidth = 1;
  series.forEach((channel, number) => {
    pen.strokeStyle = CHANNEL_COLOURS[number % CHANNEL_COLOURS.length];
    pen.beginPath();
    channel.forEach((value, step) => {
      const place = along + (step + 0.5) * cell;
      pen.lineTo(...(upright ? [across(value), place] : [place, across(value)]));
    });
    pen.stroke();
  });
}
