"use strict";

// The maps of one attention of one model: the values of each layer, stage and head.
const STAGES = ["own", "input", "logits", "probabilities"];
const HIDDEN = -32768;

class Maps {
  constructor({ queries, keys, layers }) {
    this.queries = queries;
    this.keys = keys;
    this.size = queries.length * keys.length;
    this.layers = layers.map((stages) => {
      const decoded = {};
      for (const [name, [digits, text]] of Object.entries(stages)) {
        const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        const view = new DataView(bytes.buffer);
        const numbers = Int16Array.from({ length: bytes.length / 2 }, (_, place) => view.getInt16(2 * place, true));
        decoded[name] = { digits, numbers };
      }
      return decoded;
    });
    this.heads = this.layers[0].own.numbers.length / this.size - 1; // the last is their mean
  }

  // A stage, or the one that it equals.
  stage(layer, name) {
    const stages = this.layers[layer];
    return stages[STAGES.slice(0, STAGES.indexOf(name) + 1).findLast((one) => one in stages)];
  }

  // Values of a map, query by query, NaN where a query must not see a key; head `heads` is the mean.
  values(layer, stage, head) {
    const { digits, numbers } = this.stage(layer, stage);
    const start = head * this.size;
    return Float64Array.from(numbers.subarray(start, start + this.size), (number) =>
      number === HIDDEN ? NaN : number / 10 ** digits
    );
  }

  text(layer, stage, head, query, key) {
    const { digits, numbers } = this.stage(layer, stage);
    const number = numbers[head * this.size + query * this.keys.length + key];
    return number === HIDDEN ? null : (number / 10 ** digits).toFixed(Math.max(digits, 0));
  }

  // The largest absolute value over some layers.
  most(layers, stage, head) {
    let most = 0;
    for (const layer of layers) {
      for (const value of this.values(layer, stage, head)) most = Math.max(most, Math.abs(value) || 0);
    }
    return most;
  }
}
