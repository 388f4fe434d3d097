/** Items in batches, in their order. A batch of 500 keys occupies neither the server nor this process for long. */
export function batches<T>(items: readonly T[], size = 500): T[][] {
  const count = Math.ceil(items.length / size);
  return Array.from({ length: count }, (_, i) => items.slice(i * size, (i + 1) * size));
}
