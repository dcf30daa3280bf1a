//! The C and C++ interface of `weir-vnf`: the 19 functions of libVNF (table 1 of the paper), and a few beside them, with the paper's
//! names. `include/weir/vnf.h` is made from this crate; what its functions promise stands there.
//!
//! Each core's loop has one [`function::Function`], which holds whatever C code was given: connections by number, buffers and request
//! objects by address. Nothing that C code passes is followed before it was found there, so a wrong one is an error and no crash.

#![allow(non_snake_case, non_camel_case_types)]

mod connection;
mod errors;
mod function;
mod notice;
mod objects;
mod packet;
mod request;
mod setup;
mod state;
mod types;

pub use connection::{closeConn, createClient, registerCallback, sendData, vnfPause, vnfQueued};
pub use errors::{VnfError, vnfErrorText, vnfLastError};
pub use notice::registerforNotification;
pub use packet::{getPktBuf, setPktDNE, unsetPktDNE};
pub use request::{allocReqObj, freeReqObj, initReqPool, linkReqObj};
pub use setup::{createServer, startEventLoop, stopEventLoop, vnfCore, vnfServerPort};
pub use state::{compareAndSetData, delData, getData, setData, setKeyDNE, unsetKeyDNE};
pub use types::*;
