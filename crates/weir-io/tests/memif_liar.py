"""A memif peer that lies (memif.h of VPP, version 2.0): memif_liar.py ROLE DIRECTORY LIE...

For each lie it is a peer of the port at DIRECTORY/LIE, all at once. It prints a line for each: the lie, and why the port
ended the connection; or `open`, if the connection is still there when the standard input ends.
"""
import fcntl, mmap, os, select, socket, struct, sys, threading, time

ACK, HELLO, INIT, REGION, RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
DIRECT_MEMORY, DIRECT_SWITCHED = 0x5701, 0x5705
VERSION, COOKIE = 0x200, 0x3E31F20
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
SIZE, BUFFER = 1024, 2048
RINGS = [0, 128 + 16 * SIZE]  # to the master, from it
BUFFERS = [65536, 65536 + SIZE * BUFFER]
BYTES = 65536 + 2 * SIZE * BUFFER
FRAME = bytes(range(60))
finish = threading.Event()


class Ended(Exception):
    pass


def message(kind, fields=b""):
    return (struct.pack("<H", kind) + fields).ljust(128, b"\0")


class Peer:
    def __init__(self, sock, lie):
        self.sock, self.lie = sock, lie

    def is_lie(self, lie):
        return self.lie == lie

    def say(self, data, *fds):
        socket.send_fds(self.sock, [data], fds)

    def told(self, data, *fds):
        """Says something that is to be the end."""
        self.say(data, *fds)
        while True:
            self.hear()

    def hear(self):
        data, fds, _, _ = socket.recv_fds(self.sock, 200, 4)
        if not data:
            raise Ended("closed")
        kind = struct.unpack_from("<H", data)[0]
        if kind == DISCONNECT:
            raise Ended(data[6:].split(b"\0")[0].decode())
        return kind, data, fds

    def expect(self, kind):
        got, data, fds = self.hear()
        assert got == kind, (self.lie, got, kind)
        return data, fds

    # The memory.
    def put(self, form, at, *values):
        struct.pack_into(form, self.memory, at, *values)

    def get(self, form, at):
        return struct.unpack_from(form, self.memory, at)[0]

    def head(self, ring, to=None):
        return self.get("<H", RINGS[ring] + 6) if to is None else self.put("<H", RINGS[ring] + 6, to)

    def tail(self, ring, to=None):
        return self.get("<H", RINGS[ring] + 64) if to is None else self.put("<H", RINGS[ring] + 64, to)

    def descriptor(self, ring, slot, flags=0, region=0, length=60, offset=None):
        offset = BUFFERS[ring] + slot * BUFFER if offset is None else offset
        self.put("<HHIII", RINGS[ring] + 128 + 16 * slot, flags, region, length, offset, 0)

    def frame(self, ring, slot, frame=FRAME):
        at = BUFFERS[ring] + slot * BUFFER
        self.memory[at : at + len(frame)] = frame

    def wait_for_end(self):
        """Until the port ends the connection, or we are to finish."""
        while not finish.is_set():
            if select.select([self.sock], [], [], 0.05)[0]:
                self.hear()
        return "open"


def cannot_shrink(fd):
    try:
        os.ftruncate(fd, 4096)
        return False
    except PermissionError:
        return True


class Slave(Peer):
    def run(self):
        is_lie, say = self.is_lie, self.say
        data, _ = self.expect(HELLO)
        assert struct.unpack_from("<HH", data, 34) == (VERSION, VERSION)
        if is_lie("short"):
            self.told(message(INIT)[:5])
        if is_lie("long"):
            self.told(message(INIT) * 2)
        if is_lie("kind"):
            self.told(message(77))
        if is_lie("early"):
            self.told(message(CONNECT))
        if is_lie("hello"):
            self.told(data)
        version = 0x300 if is_lie("version") else VERSION
        secret = b"guess" if is_lie("secret") else b"hush"
        init = struct.pack("<HIB24s32s", version, is_lie("id"), is_lie("mode"), secret, b"liar")
        say(message(INIT, init))
        self.expect(ACK)
        if is_lie("again"):
            say(message(INIT, init))
            self.expect(ACK)
        fd = os.memfd_create("liar", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 8192 if is_lie("short-file") else BYTES)
        self.memory = mmap.mmap(fd, 8192 if is_lie("short-file") else BYTES)
        if not is_lie("unsealed"):
            fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
        size = {"no-size": 0, "huge": 1 << 63, "large": 1 << 29}.get(self.lie, BYTES)
        region = message(REGION, struct.pack("<HQ", is_lie("region"), size))
        if is_lie("no-descriptor"):
            say(region)
        elif is_lie("two-descriptors"):
            say(region, fd, fd)
        elif is_lie("pipe"):
            say(region, os.pipe()[0])
        elif is_lie("linger"):
            say(region, lingering())
        else:
            say(region, fd)
        self.expect(ACK)
        if is_lie("few"):
            self.told(message(CONNECT))
        flags = 0 if is_lie("full-signal") else os.EFD_NONBLOCK
        self.signals = [os.eventfd(0, flags), os.eventfd(0, flags)]
        for ring in 0, 1:
            cookie = 0 if is_lie("cookie") else COOKIE
            self.put("<IHH", RINGS[ring], cookie, 0, 0)
            ours = is_lie("ring-" + str(ring))
            at = RINGS[ring] + (BYTES if is_lie("ring-outside") else 4 if is_lie("unaligned") else 0)
            log2 = {"log2": 40, "log2-15": 15}.get(self.lie, 10)
            fields = (1 - ring, ours, 3 * is_lie("ring-region"), at, log2, 0)
            fd2 = fd if is_lie("no-signal") else self.signals[ring]
            for _ in range(2 if is_lie("twice") else 1):
                say(message(RING, struct.pack("<HHHIBH", *fields)), fd2)
                self.expect(ACK)
        for slot in range(SIZE):
            self.descriptor(0, slot)
            self.descriptor(1, slot, length=BUFFER)
        say(message(CONNECT, b"liar"))
        self.expect(CONNECTED)
        if is_lie("more"):
            say(message(ACK))
        elif is_lie("direct"):
            say(message(DIRECT_SWITCHED))
        self.rings()
        assert cannot_shrink(fd)
        return self.wait_for_end()

    def rings(self):
        is_lie = self.is_lie
        for slot in range(8):
            self.frame(0, slot)
        if is_lie("head"):
            self.head(0, SIZE + 1)
        elif is_lie("head-back"):
            self.head(0, 0xFFFF)
        elif is_lie("free-head"):
            self.head(1, SIZE + 7)
        elif is_lie("free-region"):
            self.descriptor(1, 0, region=9, length=BUFFER)
            self.head(1, SIZE)
        elif is_lie("free-outside"):
            self.descriptor(1, 0, offset=0xFFFFFFFF, length=BUFFER)
            self.head(1, SIZE)
        elif is_lie("free-empty"):
            self.descriptor(1, 0, length=0)
            self.head(1, SIZE)
        elif is_lie("free-endless"):
            # Longer than its region, at its very end.
            self.descriptor(1, 0, offset=BYTES - 1, length=0xFFFFFFFF)
            self.head(1, SIZE)
        elif is_lie("full-signal"):
            for fd in self.signals:
                os.eventfd_write(fd, (1 << 64) - 2 - 100)
            self.head(1, SIZE)
            self.head(0, 1)
        elif is_lie("packets"):
            # Nine that are none, and one that is.
            self.descriptor(0, 0, region=7)
            self.descriptor(0, 1, offset=BYTES - 59)
            self.descriptor(0, 2, length=0xFFFFFFFF)
            self.descriptor(0, 3, length=0)
            self.descriptor(0, 4, length=13)
            self.descriptor(0, 5, length=300000)
            # A chain that leads out of the memory, and one that is too long for a packet.
            self.descriptor(0, 6, flags=1)
            self.descriptor(0, 7, region=1)
            self.descriptor(0, 8, flags=1, length=200000)
            self.descriptor(0, 9, length=200000)
            self.descriptor(0, 10, offset=BUFFERS[0])
            # And one without an end.
            self.descriptor(0, 11, flags=1)
            self.descriptor(0, 12, flags=1)
            self.head(0, 13)
        elif is_lie("all-chained"):
            for slot in range(SIZE):
                self.descriptor(0, slot, flags=1, length=0xFFFFFFFF, offset=0xFFFFFFFF)
            self.head(0, SIZE)
        elif is_lie("hole"):
            # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, by madvise(MADV_REMOVE).
            self.memory.madvise(9, BUFFERS[0], 4096)
            self.head(0, 2)
        elif is_lie("dies"):
            self.head(0, 3)
            raise Ended("dead")
        elif is_lie("silent"):
            self.head(1, 16)


def lingering():
    """A socket whose last owner waits when it closes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    sock = socket.create_connection(listener.getsockname())
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    kept.append((listener, listener.accept()))
    try:
        while True:
            sock.send(bytes(1 << 20))
    except BlockingIOError:
        pass
    return sock.detach()


kept = []


class Master(Peer):
    def run(self):
        is_lie, say = self.is_lie, self.say
        low, high = (0x300, 0x400) if is_lie("version") else (VERSION, VERSION)
        log2 = 3 if is_lie("small") else 14
        hello = message(HELLO, struct.pack("<32sHHHHHB", b"liar", low, high, 1, 0, 0, log2))
        if is_lie("no-hello"):
            self.told(message(ACK))
        if is_lie("early"):
            self.told(message(CONNECTED))
        say(hello)
        if is_lie("hello"):
            self.told(hello)
        kinds, fds = [], []
        for _ in range(5):
            kind, data, more = self.hear()
            kinds.append(kind)
            fds += more
            if kind == REGION:
                self.bytes = struct.unpack_from("<Q", data, 4)[0]
            if kind == RING:
                RINGS_OF[self.lie] = RINGS_OF.get(self.lie, []) + [struct.unpack_from("<I", data, 8)[0]]
            if kind != CONNECT:
                say(message(ACK))
        assert kinds == [INIT, REGION, RING, RING, CONNECT], kinds
        assert cannot_shrink(fds[0])
        if is_lie("acks"):
            self.told(message(ACK))
        self.memory = mmap.mmap(fds[0], self.bytes)
        self.signals = fds[1:]
        say(message(CONNECTED, b"liar"))
        if is_lie("init"):
            say(message(INIT))
        elif is_lie("direct"):
            say(message(DIRECT_MEMORY), fds[0])
        at = RINGS_OF[self.lie][1]
        while self.get("<H", at + 6) == 0:
            time.sleep(0.001)
        to, off = RINGS_OF[self.lie]
        if is_lie("tail"):
            self.put("<H", to + 64, 77)
        elif is_lie("free-tail"):
            self.put("<H", at + 64, SIZE + 1)
        elif is_lie("packets"):
            # Descriptors say what they like of the place: the buffer is that of the slot. Three are none.
            for slot, (flags, length) in enumerate([(0, 60), (0, BUFFER + 1), (0, 0xFFFFFFFF), (0, 3), (0, 61)]):
                self.put("<HHIII", at + 128 + 16 * slot, flags, 9, length, 0xFFFFFFFF, 0)
            self.put("<H", at + 64, 5)
        elif is_lie("all-chained"):
            for slot in range(SIZE):
                self.put("<HHIII", at + 128 + 16 * slot, 1, 0, BUFFER, 0, 0)
            self.put("<H", at + 64, SIZE)
        elif is_lie("scribbles"):
            # Over all that is the other's: what it needs, it does not read from here.
            for slot in range(SIZE):
                self.put("<HHIII", to + 128 + 16 * slot, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
            for ring in to, at:
                self.put("<IH", ring, 0, 0)
        elif is_lie("full-signal"):
            for fd in self.signals:
                flags = fcntl.fcntl(fd, fcntl.F_GETFL)
                fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
                os.eventfd_write(fd, (1 << 64) - 2 - 1000)
                try:
                    os.set_blocking(fd, False)
                    while True:
                        os.eventfd_write(fd, 1)
                except BlockingIOError:
                    os.set_blocking(fd, True)
            self.put("<H", at + 64, 0)
        return self.wait_for_end()


RINGS_OF = {}


def slave(directory, lie, say):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(os.path.join(directory, lie))
    say(Slave(sock, lie))


def master(directory, lie, say):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(directory, lie))
    listener.listen(1)
    say(Master(listener.accept()[0], lie))


def main(role, directory, *lies):
    def say(peer):
        try:
            end = peer.run()
        except (Ended, OSError) as e:
            end = e
        peer.sock.close()
        sys.stdout.write(f"{peer.lie}: {end}\n")
        sys.stdout.flush()

    threads = [threading.Thread(target=globals()[role], args=(directory, lie, say)) for lie in lies]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    finish.set()
    for thread in threads:
        thread.join()


main(*sys.argv[1:])
