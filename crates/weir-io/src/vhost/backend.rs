//! What answers a front end. Messages are read and written by the crate `vhost`; what they mean is done to the device.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::socket::{MsgFlags, recv};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{BackendReqHandler, Error, GpuBackend, Result as Answer, VhostUserBackendReqHandler};

use super::control::Shared;
use super::device::{Device, FEATURES, FROM_DRIVER, Refused, Signal};
use super::memory::{self, Memory, Region};
use super::options::Options;
use super::ring::Addresses;

/// How a connection has ended.
#[derive(Debug)]
pub struct End {
    /// Why.
    pub why: String,
    /// Whether it was because of what the front end said.
    pub refused: bool,
}

/// The device of a back end.
#[derive(Debug)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Changes or uses it.
    pub fn with<T>(&self, with: impl FnOnce(&mut Device) -> T) -> T {
        self.0.change(with)
    }
}

/// The back end: it answers a front end.
#[derive(Debug)]
pub struct Backend {
    options: Options,
    shared: Arc<Shared>,
}

impl Backend {
    /// One without a port, as fuzzing needs it.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(options: &Options) -> io::Result<Backend> {
        Ok(Backend { options: options.clone(), shared: Arc::new(Shared::new(options)?) })
    }

    /// One that changes the device of a port.
    pub(super) fn of(options: &Options, shared: Arc<Shared>) -> Backend {
        Backend { options: options.clone(), shared }
    }

    /// The device that it changes.
    pub fn device(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Answers messages until the connection ends.
    pub fn answer(self, stream: UnixStream) -> End {
        let backend = Arc::new(self);
        let copy = match stream.try_clone() {
            Ok(copy) => copy,
            Err(e) => return End { why: format!("the connection has broken: {e}"), refused: false },
        };
        let mut handler = BackendReqHandler::from_stream(stream, backend.clone());
        loop {
            let early = early(&copy);
            match handler.handle_request() {
                Ok(()) => {}
                Err(Error::InactiveFeature(_)) if let Some(enable) = early => {
                    if let Err(e) = backend.enable_early(enable, &copy) {
                        return End { why: e.to_string(), refused: true };
                    }
                }
                Err(Error::Disconnected) => {
                    return End { why: "the front end has closed the connection".to_owned(), refused: false };
                }
                Err(e @ (Error::PartialMessage | Error::SocketBroken(_) | Error::SocketError(_))) => {
                    return End { why: format!("the connection has broken: {e}"), refused: false };
                }
                Err(Error::ReqHandlerError(e)) => return End { why: e.to_string(), refused: true },
                Err(e) => {
                    return End {
                        why: format!("the front end says what makes no sense: {e}"),
                        refused: true,
                    };
                }
            }
        }
    }

    /// Enables a ring before the front end has said which features it takes, as QEMU does.
    fn enable_early(&self, enable: Enable, mut stream: &UnixStream) -> Result<(), Refused> {
        self.shared.change(|device| device.set_enabled(enable.ring, enable.enabled))?;
        if enable.acknowledge {
            let words = [ENABLE, 1 | REPLY, 8, 0, 0];
            // A front end that is not there does not wait for it.
            let _ = stream.write_all(&words.map(u32::to_ne_bytes).concat());
        }
        Ok(())
    }

    /// Changes the device as the front end wants it.
    fn change<T>(&self, change: impl FnOnce(&mut Device) -> Result<T, Refused>) -> Answer<T> {
        self.shared.change(change).map_err(refused)
    }
}

/// A message that enables a ring, or disables it.
#[derive(Debug, Clone, Copy)]
struct Enable {
    ring: u32,
    enabled: bool,
    acknowledge: bool,
}

/// Its code, and flags of messages (`VHOST_USER_SET_VRING_ENABLE`).
const ENABLE: u32 = 18;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// Waits for a message, and looks whether it enables a ring. The crate refuses that before features are agreed on, and QEMU does it
/// before.
fn early(stream: &UnixStream) -> Option<Enable> {
    let mut bytes = [0; 20];
    let n = recv(stream.as_raw_fd(), &mut bytes, MsgFlags::MSG_PEEK).ok()?;
    let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let [ENABLE, flags, 8, ring, enabled @ 0..=1] = words[..] else { return None };
    (n == bytes.len()).then_some(Enable { ring, enabled: enabled == 1, acknowledge: flags & NEED_REPLY != 0 })
}

fn refused(why: impl Into<Refused>) -> Error {
    Error::ReqHandlerError(io::Error::other(why.into()))
}

/// A descriptor that programs which are started from here do not get.
fn own(file: File) -> OwnedFd {
    // There is nothing that could be wrong with it.
    let _ = fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    file.into()
}

/// What was not offered.
const UNKNOWN: Error = Error::InvalidOperation("it was not offered");

impl VhostUserBackendReqHandler for Backend {
    fn set_owner(&self) -> Answer<()> {
        Ok(())
    }

    fn reset_owner(&self) -> Answer<()> {
        self.shared.stops().map_err(refused)?;
        self.shared.reset();
        Ok(())
    }

    fn reset_device(&self) -> Answer<()> {
        Err(UNKNOWN)
    }

    fn get_features(&self) -> Answer<u64> {
        Ok(FEATURES)
    }

    fn set_features(&self, features: u64) -> Answer<()> {
        self.change(|device| device.set_features(features))
    }

    fn set_mem_table(
        &self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Answer<Option<Vec<u64>>> {
        let of = |region: &VhostUserMemoryRegion| Region {
            guest: region.guest_phys_addr,
            user: region.user_addr,
            size: region.memory_size,
            offset: region.mmap_offset,
        };
        let files = files.into_iter().map(|file| File::from(own(file)));
        let memory = Memory::map(regions.iter().map(of).zip(files).collect(), &self.options);
        let memory = memory.map_err(|e: memory::Refused| refused(e))?;
        // The old one is unmapped here.
        self.change(|device| device.set_memory(memory)).map(drop)?;
        Ok(None)
    }

    fn set_vring_num(&self, index: u32, size: u32) -> Answer<()> {
        self.change(|device| device.set_size(index, size))
    }

    fn set_vring_addr(
        &self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Answer<()> {
        let addresses = Addresses { descriptors, available, used };
        self.change(|device| device.set_addresses(index, addresses))
    }

    fn set_vring_base(&self, index: u32, position: u32) -> Answer<()> {
        self.change(|device| device.set_position(index, position))
    }

    fn get_vring_base(&self, index: u32) -> Answer<VhostUserVringState> {
        self.shared.stops().map_err(refused)?;
        let (position, [kick, _call]) = self.change(|device| device.stop(index))?;
        if index as usize == FROM_DRIVER {
            self.shared.unwatch(kick.as_ref());
        }
        self.shared.set_why("the driver has stopped its rings");
        Ok(VhostUserVringState::new(index, position.into()))
    }

    fn set_vring_kick(&self, index: u8, fd: Option<File>) -> Answer<()> {
        let index = u32::from(index);
        let signal = Signal::of_driver(index, fd.map(own)).map_err(refused)?;
        let watched = index as usize == FROM_DRIVER;
        // The old one is closed when the device is free again.
        let (_old, added) = self.change(|device| {
            if watched {
                self.shared.unwatch(device.kick());
            }
            let old = device.set_kick(index, signal)?;
            let new = device.kick().filter(|_| watched);
            let event = EpollEvent::new(EpollFlags::EPOLLIN, 1);
            Ok((old, new.map_or(Ok(()), |new| self.shared.ready.add(new, event))))
        })?;
        added.map_err(|e| Error::ReqHandlerError(e.into()))
    }

    fn set_vring_call(&self, index: u8, fd: Option<File>) -> Answer<()> {
        let signal = Signal::to_driver(index.into(), fd.map(own)).map_err(refused)?;
        self.change(|device| device.set_call(index.into(), signal)).map(drop)
    }

    fn set_vring_err(&self, _: u8, _: Option<File>) -> Answer<()> {
        // What is wrong ends the connection.
        Ok(())
    }

    fn get_protocol_features(&self) -> Answer<VhostUserProtocolFeatures> {
        // The crate adds that it acknowledges.
        Ok(VhostUserProtocolFeatures::empty())
    }

    fn set_protocol_features(&self, features: u64) -> Answer<()> {
        let offered = VhostUserProtocolFeatures::REPLY_ACK.bits();
        match features & !offered {
            0 => Ok(()),
            more => Err(refused(Refused::Features(more))),
        }
    }

    fn get_queue_num(&self) -> Answer<u64> {
        Ok(1)
    }

    fn set_vring_enable(&self, index: u32, enable: bool) -> Answer<()> {
        if !enable {
            self.shared.stops().map_err(refused)?;
        }
        self.change(|device| device.set_enabled(index, enable))
    }

    fn get_config(&self, _: u32, _: u32, _: VhostUserConfigFlags) -> Answer<Vec<u8>> {
        Err(UNKNOWN)
    }

    fn set_config(&self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Answer<()> {
        Err(UNKNOWN)
    }

    fn set_gpu_socket(&self, _: GpuBackend) -> Answer<()> {
        Err(UNKNOWN)
    }

    fn get_shared_object(&self, _: VhostUserSharedMsg) -> Answer<File> {
        Err(UNKNOWN)
    }

    fn get_inflight_fd(&self, _: &VhostUserInflight) -> Answer<(VhostUserInflight, File)> {
        Err(UNKNOWN)
    }

    fn set_inflight_fd(&self, _: &VhostUserInflight, _: File) -> Answer<()> {
        Err(UNKNOWN)
    }

    fn get_max_mem_slots(&self) -> Answer<u64> {
        Err(UNKNOWN)
    }

    fn add_mem_region(
        &self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Answer<Option<u64>> {
        Err(UNKNOWN)
    }

    fn remove_mem_region(&self, _: &VhostUserSingleMemoryRegion) -> Answer<()> {
        Err(UNKNOWN)
    }

    fn set_device_state_fd(
        &self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Answer<Option<File>> {
        Err(UNKNOWN)
    }

    fn check_device_state(&self) -> Answer<()> {
        Err(UNKNOWN)
    }

    fn get_shmem_config(&self) -> Answer<VhostUserShMemConfig> {
        Err(UNKNOWN)
    }

    fn set_log_base(&self, _: &VhostUserLog, _: File) -> Answer<()> {
        Err(UNKNOWN)
    }
}
