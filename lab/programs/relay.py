# SPDX-License-Identifier: Apache-2.0
"""Relay ports of an address to services at the lab's loopback.

``relay.py NAMESPACE ADDRESS PORT[=SOCKET]...``

It listens at ADDRESS where it is started and connects to 127.0.0.1 in
NAMESPACE, or to a Unix socket: a socket stays in the namespace in which it was
made. So a compute in a network of its own has the same configuration as one
beside the services.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys

_CLONE_NEWNET = 0x40000000
_CHUNK = 1 << 18


def main() -> None:
    """Relay, for ever."""
    namespace, address, *words = sys.argv[1:]
    listening = []
    for word in words:
        port, _, path = word.partition('=')
        own = socket.create_server((address, int(port)), backlog=128)
        listening.append((own, path or int(port)))
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), 'setns', namespace)
    os.close(descriptor)
    asyncio.run(_serve(listening))


async def _serve(listening: list[tuple[socket.socket, str | int]]) -> None:
    servers = [await _listen(own, target) for own, target in listening]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def _listen(own: socket.socket, target: str | int) -> asyncio.Server:
    async def relay(
        here: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        try:
            if isinstance(target, str):
                there, forth = await asyncio.open_unix_connection(target)
            else:
                there, forth = await asyncio.open_connection(
                    '127.0.0.1', target
                )
        except OSError:
            # As if nothing listened.
            back.transport.abort()
            return
        await asyncio.gather(_copy(here, forth), _copy(there, back))
        for writer in (forth, back):
            writer.close()

    return await asyncio.start_server(relay, sock=own)


async def _copy(
    source: asyncio.StreamReader, target: asyncio.StreamWriter
) -> None:
    """Copy one direction until its end, and hand the end on."""
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        target.write_eof()
        return
    # Broken: the other direction is of no use either.
    target.transport.abort()


if __name__ == '__main__':
    main()
