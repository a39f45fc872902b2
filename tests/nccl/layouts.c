/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs have compiled into them: values and layouts. Every header called nccl.h has to agree, NVIDIA's and ours.
 */
#include <nccl.h>

#include <stdint.h>

#define VALUE(name, value) _Static_assert((name) == (value), #name)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

VALUE(ncclSuccess, 0);
VALUE(ncclUnhandledCudaError, 1);
VALUE(ncclSystemError, 2);
VALUE(ncclInternalError, 3);
VALUE(ncclInvalidArgument, 4);
VALUE(ncclInvalidUsage, 5);
VALUE(ncclRemoteError, 6);
VALUE(ncclInProgress, 7);

VALUE(ncclInt8, 0);
VALUE(ncclChar, 0);
VALUE(ncclUint8, 1);
VALUE(ncclInt32, 2);
VALUE(ncclInt, 2);
VALUE(ncclUint32, 3);
VALUE(ncclInt64, 4);
VALUE(ncclUint64, 5);
VALUE(ncclFloat16, 6);
VALUE(ncclHalf, 6);
VALUE(ncclFloat32, 7);
VALUE(ncclFloat, 7);
VALUE(ncclFloat64, 8);
VALUE(ncclDouble, 8);
VALUE(ncclBfloat16, 9);
VALUE(ncclFloat8e4m3, 10);
VALUE(ncclFloat8e5m2, 11);
VALUE(ncclNumTypes, 12);

VALUE(ncclSum, 0);
VALUE(ncclProd, 1);
VALUE(ncclMax, 2);
VALUE(ncclMin, 3);
VALUE(ncclAvg, 4);
VALUE(ncclNumOps, 5);
VALUE(ncclMaxRedOp, 0x7fffffff);
VALUE(ncclScalarDevice, 0);
VALUE(ncclScalarHostImmediate, 1);

VALUE(sizeof(ncclResult_t), 4);
VALUE(sizeof(ncclDataType_t), 4);
VALUE(sizeof(ncclRedOp_t), 4);
VALUE(sizeof(ncclScalarResidence_t), 4);
VALUE(sizeof(ncclComm_t), sizeof(void *));
VALUE(sizeof(ncclWindow_t), sizeof(void *));
VALUE(sizeof(cudaStream_t), sizeof(void *));
VALUE(NCCL_UNIQUE_ID_BYTES, 128);
VALUE(sizeof(ncclUniqueId), 128);
VALUE(_Alignof(ncclUniqueId), 1);

VALUE(NCCL_CONFIG_UNDEF_INT, INT_MIN);
VALUE((uintptr_t)NCCL_CONFIG_UNDEF_PTR, 0);
VALUE((uintptr_t)NCCL_COMM_NULL, 0);
VALUE((int)NCCL_UNDEF_FLOAT, -1);
VALUE(NCCL_SPLIT_NOCOLOR, -1);
VALUE(NCCL_WIN_DEFAULT, 0);
VALUE(NCCL_WIN_COLL_SYMMETRIC, 1);
VALUE(NCCL_WIN_REQUIRED_ALIGNMENT, 4096);
VALUE(NCCL_CTA_POLICY_DEFAULT, 0);
VALUE(NCCL_CTA_POLICY_EFFICIENCY, 1);
VALUE(NCCL_SHRINK_DEFAULT, 0);
VALUE(NCCL_SHRINK_ABORT, 1);
VALUE(NCCL_VERSION(2, 8, 4), 2804);
VALUE(NCCL_VERSION(2, 28, 9), 22809);
VALUE(NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_VERSION_CODE);

AT(ncclConfig_t, size, 0);
AT(ncclConfig_t, magic, 8);
AT(ncclConfig_t, version, 12);
AT(ncclConfig_t, blocking, 16);
AT(ncclConfig_t, cgaClusterSize, 20);
AT(ncclConfig_t, minCTAs, 24);
AT(ncclConfig_t, maxCTAs, 28);
AT(ncclConfig_t, netName, 32);
AT(ncclConfig_t, splitShare, 40);
AT(ncclConfig_t, trafficClass, 44);
AT(ncclConfig_t, commName, 48);
AT(ncclConfig_t, collnetEnable, 56);
AT(ncclConfig_t, CTAPolicy, 60);
AT(ncclConfig_t, shrinkShare, 64);
AT(ncclConfig_t, nvlsCTAs, 68);
AT(ncclSimInfo_t, size, 0);
AT(ncclSimInfo_t, magic, 8);
AT(ncclSimInfo_t, version, 12);
AT(ncclSimInfo_t, estimatedTime, 16);
VALUE(sizeof(ncclSimInfo_t), 24);
#if NCCL_VERSION_CODE < 22800
VALUE(sizeof(ncclConfig_t), 72);
#elif NCCL_VERSION_CODE < 22900
AT(ncclConfig_t, nChannelsPerNetPeer, 72);
AT(ncclConfig_t, nvlinkCentricSched, 76);
VALUE(sizeof(ncclConfig_t), 80);
#endif

/* What the initializers put where. */
static const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
static const ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

int main(void) {
    int bad = config.size != sizeof config || config.magic != 0xcafebeef || config.version != NCCL_VERSION_CODE;
    bad |= config.blocking != INT_MIN || config.maxCTAs != INT_MIN || config.netName != NULL;
    bad |= config.splitShare != INT_MIN || config.commName != NULL || config.nvlsCTAs != INT_MIN;
    bad |= info.size != sizeof info || info.magic != 0x74685283 || info.estimatedTime != -1.0f;
    return bad;
}
