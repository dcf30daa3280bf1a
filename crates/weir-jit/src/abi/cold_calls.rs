//! Calls that most packets do not make.
//!
//! A call of Rust leaves few registers as they were, so that what is needed after it has to be in memory before it: also
//! for packets that do not come by. Between such a call and a helper stands a function that keeps all registers. It takes
//! its arguments from memory: in registers that are given, each would be in the way of what is there.

use std::sync::OnceLock;

use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{Linkage, Module, ModuleError};

use crate::JitError;
use crate::abi::helpers::Helper;

/// The signature of a helper.
pub(crate) fn helper_signature(module: &JITModule, h: Helper) -> Signature {
    let mut s = module.make_signature();
    s.params.extend(h.params().into_iter().map(AbiParam::new));
    s.returns.extend(h.result().map(AbiParam::new));
    s
}

/// Most arguments of a helper.
const MOST_PASSED: usize = 8;

/// Size of what is passed to the function in between, in bytes.
pub(crate) const PASSED_SIZE: usize = 8 * MOST_PASSED;

/// Where an argument is in what is passed to the function in between, in bytes.
pub(crate) fn passed_at(number: usize) -> i32 {
    8 * number as i32
}

/// The signature of a function that keeps all registers. That in between takes the address of the helper's arguments, and
/// puts the result in the place of the first.
pub(crate) fn cold_signature(module: &JITModule) -> Signature {
    let mut s = module.make_signature();
    s.call_conv = CallConv::PreserveAll;
    s.params.push(AbiParam::new(types::I64));
    s
}

/// Where the function in between of each helper is, once a program has called it: all programs call the same.
static MADE: [OnceLock<usize>; Helper::ALL.len()] = [const { OnceLock::new() }; Helper::ALL.len()];

/// The function in between of this name, if it was made.
pub(crate) fn find(name: &str) -> Option<*const u8> {
    let helper = Helper::ALL.iter().find(|h| h.cold_name() == name)?;
    Some(*MADE[*helper as usize].get()? as *const u8)
}

/// Makes the functions in between that a program calls, unless another one did.
pub(crate) fn make(
    program: &JITModule,
    new: impl Fn() -> Result<JITModule, JitError>,
) -> Result<(), JitError> {
    for &h in Helper::ALL {
        let made = &MADE[h as usize];
        if made.get().is_none() && program.get_name(&h.cold_name()).is_some() {
            // A module that is not asked to free its memory leaves it as it is.
            let at = define(&mut new()?, h)
                .map_err(|source| JitError::Compile { elements: h.cold_name(), source })?;
            // Who comes second has made it in vain.
            made.get_or_init(|| at as usize);
        }
    }
    Ok(())
}

fn define(module: &mut JITModule, h: Helper) -> Result<*const u8, Box<ModuleError>> {
    let helper = module.declare_function(h.name(), Linkage::Import, &helper_signature(module, h))?;
    let signature = cold_signature(module);
    let id = module.declare_function(&h.cold_name(), Linkage::Local, &signature)?;
    let mut context = module.make_context();
    context.func.signature = signature;
    let helper = module.declare_func_in_func(helper, &mut context.func);
    let config = module.target_config();
    let mut memory = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut context.func, &mut memory);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let at = b.block_params(block)[0];
    let load = |(i, ty)| b.ins().load(ty, MemFlagsData::trusted(), at, passed_at(i));
    let args: Vec<Value> = h.params().into_iter().enumerate().map(load).collect();
    debug_assert!(args.len() <= MOST_PASSED);
    let call = b.ins().call(helper, &args);
    if let Some(&result) = b.inst_results(call).first() {
        b.ins().store(MemFlagsData::trusted(), result, at, 0);
    }
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(config);
    module.define_function(id, &mut context)?;
    module.finalize_definitions()?;
    Ok(module.get_finalized_function(id))
}
