/** The heights of rows, known or estimated, with their sums in logarithmic time (a Fenwick tree). */
export class Heights {
  #count = 0;
  #size = 1;
  #tree = new Float64Array(2);
  #values = new Float64Array(1);
  readonly #estimate: number;

  constructor(count: number, estimate: number) {
    this.#estimate = estimate;
    this.resize(count);
  }

  get total(): number {
    return this.topOf(this.#count);
  }

  resize(count: number): void {
    if (count === this.#count) return;
    const values = new Float64Array(count).fill(this.#estimate);
    values.set(this.#values.subarray(0, Math.min(this.#count, count)));
    this.#values = values;
    this.#count = count;
    this.#tree = new Float64Array(count + 1);
    for (let index = 0; index < count; index += 1) this.#tree[index + 1] = values[index] ?? 0;
    for (let node = 1; node <= count; node += 1) {
      const parent = node + (node & -node);
      if (parent <= count) this.#tree[parent] = (this.#tree[parent] ?? 0) + (this.#tree[node] ?? 0);
    }
    this.#size = 1;
    while (this.#size * 2 <= count) this.#size *= 2;
  }

  /** True if the height is another than before. */
  set(index: number, height: number): boolean {
    const before = this.#values[index];
    if (before === undefined || height === before) return false;
    this.#values[index] = height;
    for (let node = index + 1; node <= this.#count; node += node & -node) {
      this.#tree[node] = (this.#tree[node] ?? 0) + height - before;
    }
    return true;
  }

  /** Where the row begins. */
  topOf(index: number): number {
    let sum = 0;
    for (let node = Math.min(Math.max(index, 0), this.#count); node > 0; node -= node & -node) {
      sum += this.#tree[node] ?? 0;
    }
    return sum;
  }

  /** The row at this distance from the top. */
  indexAt(top: number): number {
    let node = 0;
    let rest = top;
    for (let step = this.#size; step > 0; step >>= 1) {
      const sum = this.#tree[node + step];
      if (node + step <= this.#count && sum !== undefined && sum <= rest) {
        node += step;
        rest -= sum;
      }
    }
    return Math.max(0, Math.min(node, this.#count - 1));
  }
}
