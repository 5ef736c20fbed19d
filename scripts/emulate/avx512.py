"""A pytest plugin that runs kernels for x86-64-v4 on a processor without AVX-512, by the emulator of the package bochscpu-python.

The first instruction that the processor lacks raises SIGILL, whose handler hands the registers to the emulator. It goes on from there, on
this process's memory, until control leaves fgrad's code, and gives the registers back. Nothing of vectors beyond what AVX2 has, nor a mask
register, is alive at a call or a return, so nothing is lost. Kernels run by one thread; 0.1 ms or so for each entry. Processes that tests
start are not emulated and die of SIGILL.
"""

import ctypes
import gc
import mmap
import os
import struct
import sys
import threading
import time

import bochscpu
import bochscpu.cpu
import bochscpu.memory
import pytest

PAGE, GIB = 1 << 12, 1 << 30
SIGILL, SA_SIGINFO, SA_NODEFER, SA_ONSTACK = 4, 4, 0x40000000, 0x08000000
ARCH_PRCTL, ARCH_GET_FS = 158, 0x1003
STACK = 64 << 20  # bytes of a handler's own stack
GENERAL = ("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp", "rip", "rflags")
REGISTERS, FLOATS = 40, 224  # of a ucontext: the general registers, and where the pointer to the others lies
MXCSR, XMM, MARKS, YMM = 24, 160, 512, 576  # of the others: the control word, low halves, which are in use, high halves
PRESENT, LARGE = 3, 0x83  # flags of a page's entry, and of one that maps 2 MB or 1 GB
STUB = 16  # the virtual GB of the page where every run begins
MOVED = 700 * GIB  # physical addresses of pages of made code that has changed, from here on
NEAR = 1 << 16  # made code lies within so many bytes of where it was entered
libc = ctypes.CDLL(None, use_errno=True)
counts = {"entries": 0, "made code": 0, "changed pages": 0}


def _word(address):
    return ctypes.c_uint64.from_address(address)


def _fail(text):
    os.write(2, f"emulate: {text}\n".encode())
    os._exit(98)


class Emulator:
    """The processor, and its page tables: a GB of virtual memory is one of physical memory, whose pages are this process's own."""

    def __init__(self):
        self.session = bochscpu.Session()
        self.session.missing_page_handler = self._missing
        hook = bochscpu.Hook()
        hook.ucnear_branch = self._branch
        hook.exception = self._exception
        self.hooks = [hook]
        self.physical, self.virtual = {}, {}  # GB -> GB
        self.third, self.second, self.first = {}, {}, {}  # tables of pages, by what they map
        self.free, self.moved = 16 * PAGE, MOVED
        self.buffer = (ctypes.c_char * PAGE)()
        self.text = []  # ranges of fgrad's code
        self.made = []  # ranges in which it has made some
        self.inside = (0, 0)  # that of this run
        self.ran, self.held = set(), {}  # pages of made code that have run, and what they held
        self.error = None
        self.root_at, self.root = self._page()
        code_at, code = self._page()
        data_at, self.target = self._page()
        self._map(STUB, 0)
        self.begin = STUB * GIB + code_at
        stub = b"\x0f\x09\xff\x25" + struct.pack("<i", data_at - code_at - 8)  # wbinvd: forgets decoded instructions; jmp [target]
        ctypes.memmove(code, stub, len(stub))
        for first, last, _ in self._maps():
            for gb in range(first // GIB, last // GIB + 3):
                self._map(gb)
        top = ctypes.cast(libc.malloc, ctypes.c_void_p).value // GIB
        for gb in range(top - 60, top + 2):  # memory that will be asked for lies below
            self._map(gb)

    @staticmethod
    def _maps():
        with open("/proc/self/maps") as lines:
            for line in lines:
                fields = line.split()
                first, last = (int(v, 16) for v in fields[0].split("-"))
                if last <= 1 << 47:
                    yield first, last, fields

    def _page(self):
        """A new page of physical memory: its address there and here."""
        at, here = self.free, bochscpu.memory.allocate_host_page()
        self.free += PAGE
        bochscpu.memory.page_insert(at, here)
        ctypes.memset(here, 0, PAGE)
        return at, here

    def _map(self, gb, to=None):
        if gb in self.physical:
            return
        self.physical[gb] = len(self.physical) if to is None else to
        self.virtual[self.physical[gb]] = gb
        if gb >> 9 not in self.third:
            at, self.third[gb >> 9] = self._page()
            _word(self.root + 8 * (gb >> 9)).value = at | PRESENT
        _word(self.third[gb >> 9] + 8 * (gb & 511)).value = self.physical[gb] * GIB | LARGE

    def _missing(self, at):
        gb = self.virtual.get(at // GIB)
        if gb in (None, STUB):
            _fail(f"no page at {at:#x}")
        at &= -PAGE
        bochscpu.memory.page_insert(at, gb * GIB | at % GIB)

    def _branch(self, session, cpu, kind, source, to):
        if self.inside[0] <= to < self.inside[1]:
            self.ran.add(to // PAGE)
        elif not any([a <= to < b for a, b in self.text]):
            session.stop()

    def _exception(self, session, cpu, vector, code):
        self.error = vector
        session.stop()

    def _enter(self, at):
        """Find what `at` belongs to: fgrad's libraries, or code that it has made."""
        self.inside = (0, 0)
        if any([a <= at < b for a, b in self.text]):
            return
        made = next((m for m in self.made if m[0] <= at < m[1]), None)
        if made is None:
            self.text = []
            for first, last, fields in self._maps():
                if "x" in fields[1] and len(fields) > 5 and ("/fgrad/" in fields[-1] or first <= at < last):
                    self.text.append((first, last))
            if any([a <= at < b for a, b in self.text]):
                return
            made = (at - NEAR, at + NEAR)
            self.made.append(made)
        counts["made code"] += 1
        self.inside = made
        self.ran.add(at // PAGE)
        for page in sorted(self.ran):  # instructions are kept as decoded, by physical address: a page that has changed gets another one
            if made[0] <= page * PAGE < made[1]:
                for p in (page, page + 1):
                    now = self._read(p * PAGE)
                    if self.held.setdefault(p, now) != now:
                        self._move(p)
                    self.held[p] = now

    def _read(self, at):
        """A page, or None if there is none."""
        to, source = ((ctypes.c_uint64 * 2)(address, PAGE) for address in (ctypes.addressof(self.buffer), at))
        return bytes(self.buffer) if libc.process_vm_readv(os.getpid(), to, 1, source, 1, 0) == PAGE else None

    def _move(self, page):
        counts["changed pages"] += 1
        gb, block = page >> 18, page >> 9
        if gb not in self.second:
            at, self.second[gb] = self._page()
            for i in range(512):
                _word(self.second[gb] + 8 * i).value = self.physical[gb] * GIB + (i << 21) | LARGE
            _word(self.third[gb >> 9] + 8 * (gb & 511)).value = at | PRESENT
        if block not in self.first:
            at, self.first[block] = self._page()
            for i in range(512):
                _word(self.first[block] + 8 * i).value = self.physical[gb] * GIB + ((block & 511) << 21) + (i << 12) | PRESENT
            _word(self.second[gb] + 8 * (block & 511)).value = at | PRESENT
        bochscpu.memory.page_insert(self.moved, page * PAGE)
        _word(self.first[block] + 8 * (page & 511)).value = self.moved | PRESENT
        self.moved += PAGE

    def run(self, context):
        """Go on from the registers in a ucontext, and leave in it those at the end."""
        counts["entries"] += 1
        general = [_word(context + REGISTERS + 8 * i) for i in range(len(GENERAL))]
        begin = general[GENERAL.index("rip")].value
        self._enter(begin)
        floats = _word(context + FLOATS).value
        marks = _word(floats + MARKS)
        state = bochscpu.State()
        for name, value in zip(GENERAL, general):
            setattr(state, name, value.value)
        state.rip, _word(self.target).value = self.begin, begin
        state.rflags &= ~0x10100  # no trap, no resumption
        state.cr0, state.cr3, state.cr4, state.efer, state.xcr0 = 0x80000033, self.root_at, 0x50620, 0x501, 0xE7  # 64 bits, AVX-512
        state.fpcw, state.fptw, state.mxcsr_mask = 0x37F, 0xFFFF, 0xFFFF
        state.mxcsr = ctypes.c_uint32.from_address(floats + MXCSR).value
        for name in ("cs", "ds", "es", "ss", "fs", "gs"):
            segment = bochscpu.Segment()
            segment.present, segment.selector, segment.limit = True, 0x10 if name == "cs" else 0x18, 0xFFFFFFFF
            segment.attr = 0x209B if name == "cs" else 0xC093
            segment.base = _thread_base() if name == "fs" else 0
            setattr(state, name, segment)
        low, high = (
            struct.unpack("<32Q", ctypes.string_at(floats + at, 256)) if marks.value & bit else (0,) * 32
            for at, bit in ((XMM, 2), (YMM, 4))
        )
        vectors = state.zmm
        for i in range(16):
            vectors[i].q = [*low[2 * i : 2 * i + 2], *high[2 * i : 2 * i + 2], 0, 0, 0, 0]
        state.zmm = vectors
        self.session.cpu.set_state(state)
        self.error = None
        self.session.run(self.hooks)
        state = self.session.cpu.state
        if self.error is not None:
            _fail(f"exception {self.error} at {state.rip:#x} (memory {state.cr2:#x}), in code entered at {begin:#x}")
        for name, value in zip(GENERAL, general):
            value.value = getattr(state, name)
        parts = [v.q for v in state.zmm[:16]]
        for at, halves in ((XMM, slice(0, 2)), (YMM, slice(2, 4))):
            ctypes.memmove(floats + at, struct.pack("<32Q", *[q for v in parts for q in v[halves]]), 256)
        marks.value |= 7
        ctypes.c_uint32.from_address(floats + MXCSR).value = state.mxcsr


def _thread_base():
    base = ctypes.c_ulong()
    libc.syscall(ARCH_PRCTL, ARCH_GET_FS, ctypes.byref(base))
    return base.value


emulator, stacks, owner = None, [], None


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def _handler(signal, info, context):
    global owner
    collects = gc.isenabled()
    gc.disable()
    try:
        if owner == threading.get_ident():
            _fail("an instruction that is not known, in the emulator itself")
        while owner is not None:  # there is one emulator for all threads
            time.sleep(0.0005)
        owner = threading.get_ident()
        emulator.run(context)
        owner = None
    except BaseException as e:
        _fail(repr(e))
    if collects:
        gc.enable()


class _Sigaction(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p)]


def _own_stack():
    """Emulated code uses the stack below the handler's frame, so the handler has another, each thread's own."""
    stack = mmap.mmap(-1, STACK)
    stacks.append(stack)
    if libc.sigaltstack((ctypes.c_ulong * 3)(ctypes.addressof(ctypes.c_char.from_buffer(stack)), 0, STACK), None):
        _fail("sigaltstack")


def install():
    """Emulate from now on: to be called before fgrad is imported."""
    global emulator
    os.environ["FGRAD_NUM_THREADS"] = "1"
    emulator = Emulator()
    _own_stack()
    begin = threading.Thread._bootstrap_inner

    def bootstrap(self):
        _own_stack()
        begin(self)

    threading.Thread._bootstrap_inner = bootstrap
    action = _Sigaction()
    action.handler = ctypes.cast(_handler, ctypes.c_void_p).value
    action.flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK
    if libc.sigaction(SIGILL, ctypes.byref(action), None):
        _fail("sigaction")


install()


def pytest_configure(config):
    import fgrad
    from fgrad._kernels import parallel

    fgrad.set_num_threads = parallel.set_num_threads = lambda n: None  # OpenMP's threads have no stacks for the handler


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, exitstatus, config):
    terminalreporter.write_line(f"emulated: {counts}")

    def leave():  # the emulator does not survive its module
        sys.stdout.flush()
        os._exit(int(exitstatus))

    config.add_cleanup(leave)
