//! Calls that most packets do not make.
//!
//! A call of Rust leaves few registers as they were, so that what is needed after it has to be in memory before it: also
//! for packets that do not come by. Between such a call and a helper stands a function that keeps all registers.

use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{Linkage, Module, ModuleError};

use crate::helpers::Helper;

/// The signature of a helper.
pub(crate) fn helper_signature(module: &JITModule, h: Helper) -> Signature {
    let mut s = module.make_signature();
    s.params.extend(h.params().into_iter().map(AbiParam::new));
    s.returns.extend(h.result().map(AbiParam::new));
    s
}

/// The signature of the function in between: the helper's, with the address for the result behind its parameters.
pub(crate) fn rare_signature(module: &JITModule, h: Helper) -> Signature {
    let mut s = module.make_signature();
    s.call_conv = CallConv::PreserveAll;
    s.params.extend(h.params().into_iter().map(AbiParam::new));
    s.params.extend(h.result().map(|_| AbiParam::new(types::I64)));
    s
}

/// Makes the functions in between that are called.
pub(crate) fn define(module: &mut JITModule) -> Result<(), Box<ModuleError>> {
    let mut memory = FunctionBuilderContext::new();
    for &h in Helper::ALL {
        if module.get_name(&h.rare_name()).is_none() {
            continue;
        }
        let helper = module.declare_function(h.name(), Linkage::Import, &helper_signature(module, h))?;
        let signature = rare_signature(module, h);
        let id = module.declare_function(&h.rare_name(), Linkage::Local, &signature)?;
        let mut context = module.make_context();
        context.func.signature = signature;
        let helper = module.declare_func_in_func(helper, &mut context.func);
        let config = module.target_config();
        let mut b = FunctionBuilder::new(&mut context.func, &mut memory);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        let params = b.block_params(block).to_vec();
        let call = b.ins().call(helper, &params[..h.params().len()]);
        if let (Some(&result), Some(&at)) = (b.inst_results(call).first(), params.get(h.params().len())) {
            b.ins().store(MemFlagsData::trusted(), result, at, 0);
        }
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(config);
        module.define_function(id, &mut context)?;
    }
    Ok(())
}
