"""Tensors as functions of C get and give them, which compiled code calls."""

import ctypes

import torch


def handle_of(tensor):
    """A pointer to the tensor; it is never freed."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.c_void_p(get_pointer(torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(tensor), None))


def tensor_of(handle):
    """The tensor that a function made."""
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(new_capsule(handle, None, None))
