"use strict";

// Draws a series along the axes of a map: a line for each channel, all on one scale.
const STRIP = 48; // pixels across
const CHANNEL_COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"];
const LISTED = 2 * CHANNEL_COLOURS.length; // channels that look different; lines after the sixth are dashed

// The colour of a channel, and whether its line is dashed.
function channelLook(number) {
  const place = number % LISTED;
  return { colour: CHANNEL_COLOURS[place % CHANNEL_COLOURS.length], dashed: place >= CHANNEL_COLOURS.length };
}

// Names the channels, each next to a piece of its line.
function listChannels(place, series) {
  const items = series.slice(0, LISTED).map((_, number) => {
    const item = document.createElement("span"), { colour, dashed } = channelLook(number);
    item.textContent = `channel ${number + 1}`;
    item.style.setProperty("--colour", colour);
    item.style.setProperty("--dash", dashed ? "dashed" : "solid");
    return item;
  });
  place.append("Lines along the maps:", ...items);
  if (series.length > LISTED) place.append(`and ${series.length - LISTED} more in the same colours`);
}

// Draws the channels from `along` on, a step in the middle of each cell, in a strip that ends at `edge`.
function drawStrip(pen, series, { along, edge, cell, upright }) {
  const values = series.flat().filter(Number.isFinite);
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  const across = (value) => edge - 2 - (high > low ? ((value - low) / (high - low)) * (STRIP - 4) : (STRIP - 4) / 2);
  pen.lineWidth = 1;
  series.forEach((channel, number) => {
    const { colour, dashed } = channelLook(number);
    pen.strokeStyle = colour;
    pen.setLineDash(dashed ? [4, 3] : []);
    pen.beginPath();
    channel.forEach((value, step) => {
      const place = along + (step + 0.5) * cell;
      pen.lineTo(...(upright ? [across(value), place] : [place, across(value)]));
    });
    pen.stroke();
  });
  pen.setLineDash([]);
}
