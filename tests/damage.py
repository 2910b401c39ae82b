"""Damage to the folder of a member that does not run."""


def flip(path, at):
    """A bit of the file is another."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def flip_log(folder):
    flip(min((folder / "log").glob("*.log")), 200)


def flip_engine(folder):
    for table in (folder / "engine").glob("*/tables/*"):
        for at in range(0, table.stat().st_size, 64):
            flip(table, at)


def falsify(folder, true, false):
    """The log says one thing in place of another of the same length, with checksums that are right
    (docs/reference/format/log.md). The engine, made of it at the next start, has a wrong value that
    only a comparison with other members can find. How many records that changed."""
    assert len(true) == len(false)
    changed = 0
    for path in sorted((folder / "log").glob("*.log")):
        segment = bytearray(path.read_bytes())
        chain_and_sequence = bytes(segment[12:28])
        at = HEADER_BYTES
        while at + RECORD_BYTES <= len(segment) and any(segment[at:at + RECORD_BYTES]):
            size = int.from_bytes(segment[at + 4:at + 8], "little")
            end = at + RECORD_BYTES + size
            record = bytes(segment[at + 4:end])
            place = chain_and_sequence + at.to_bytes(8, "little")
            assert crc32c(place + record) == int.from_bytes(segment[at:at + 4], "little")
            if true in record:
                record = record.replace(true, false)
                segment[at:end] = crc32c(place + record).to_bytes(4, "little") + record
                changed += 1
            at = end
        path.write_bytes(segment)
    return changed


HEADER_BYTES, RECORD_BYTES = 64, 13


def crc32c(data):
    """Castagnoli's, bit by bit of a table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _remainder(byte):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC_TABLE = [_remainder(byte) for byte in range(256)]
