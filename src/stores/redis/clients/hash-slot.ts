const SLOTS = 16_384;

/** The table of CRC-16/XMODEM, per byte. */
const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0);
  return crc;
});

/** The cluster slot of a key: the slot of the key's hash tag, if present. */
export function slotOf(key: string): number {
  const from = key.indexOf('{') + 1;
  const to = from === 0 ? -1 : key.indexOf('}', from);
  const hashed = to > from ? key.slice(from, to) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) crc = ((crc << 8) ^ TABLE[(crc >> 8) ^ byte]!) & 0xffff;
  return crc % SLOTS;
}
