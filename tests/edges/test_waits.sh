#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# No wait of init is silent, whatever launcher says who the ranks are: one of two ranks does not come, and the other one must say
# so within COLLET_WARN_AFTER, with the variables that it believes. Before, it was silent for COLLET_INIT_TIMEOUT, 10 minutes.
B=${BUILD:-build}
. tests/common/cases.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset COLLET_DEBUG
export COLLET_WARN_AFTER=1 COLLET_INIT_TIMEOUT=3
port=$((20000 + $$ % 10000))

# alone NAME VARIABLE=VALUE…: one rank of two, in the background
alone() {
    local name=$1
    shift
    env "$@" timeout 20 "$B/bin/hello_allreduce" > "$folder/$name" 2>&1 &
}

# says NAME TEXT…: exactly one line of its warning has each text, and the error names them, too
says() {
    local name=$1 text
    shift
    for text in "$@"; do
        if [ "$(grep -c "has waited for .*since ..:..:..: .*$text" "$folder/$name")" != 1 ] ||
            ! grep "COLLET_INIT_TIMEOUT" "$folder/$name" | grep -q "$text"; then
            echo "not said: $text"
            cat "$folder/$name"
            return 1
        fi
    done
}

# A library of PMIx whose fence does not end.
cat > "$folder/pmix.c" <<'C'
int PMIx_Init(void *self, void *infos, unsigned long n) { return 0; }
int PMIx_Put(unsigned char scope, const char *key, void *value) { return 0; }
int PMIx_Commit(void) { return 0; }
int PMIx_Fence_nb(void *a, unsigned long b, void *c, unsigned long d, void *e, void *f) { return 0; }
int PMIx_Get_nb(void *a, const char *b, void *c, unsigned long d, void *e, void *f) { return 0; }
int PMIx_Finalize(void *a, unsigned long b) { return 0; }
C
${CC:-cc} -shared -fPIC -o "$folder/libpmix.so.2" "$folder/pmix.c"

alone torchrun_first RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
alone torchrun_second RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port + 10))
alone address RANK=1 WORLD_SIZE=2 COLLET_COMM_ID=127.0.0.1:$((port + 20))
alone local_first RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=waits-a-$$
alone local_second RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=waits-b-$$
alone slurm SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2 SLURM_NNODES=1 SLURM_JOB_ID=waits-$$ SLURM_STEP_ID=1
alone mpich PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 PMI_JOBID=waits-$$
alone open_mpi OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=waits-$$
alone pmix OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=waits LD_LIBRARY_PATH="$folder"
# A plain program in an interactive step, whose allocation has 4 tasks: it is alone, and must not wait for them.
alone interactive SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 SLURM_NNODES=1 SLURM_JOB_ID=7 SLURM_STEP_ID=4294967290
# A rank that is none of the job's.
alone contradiction SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2 SLURM_NNODES=1 SLURM_JOB_ID=waits-$$
wait

check torchruns_first_rank_names_the_missing_one says torchrun_first "these have not come: 1 " WORLD_SIZE=2 MASTER_PORT=$port
check torchruns_second_rank_names_the_address_that_does_not_answer \
    says torchrun_second "no meeting point answers at 127.0.0.1:$((port + 12))" WORLD_SIZE=2 MASTER_ADDR=127.0.0.1
check a_given_address_that_does_not_answer_is_named_with_its_variable \
    says address "no meeting point answers" COLLET_COMM_ID=127.0.0.1
check the_first_rank_of_a_host_names_the_missing_one says local_first "have not come: 1 " LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID
check another_rank_of_a_host_names_the_first says local_second "rank 0 of job" "has not come on this host" WORLD_SIZE=2
check slurms_step_is_believed_and_not_the_allocation says slurm "have not come: 1 " SLURM_STEP_NUM_TASKS=2 SLURM_NNODES=1
check the_variables_of_pmi_are_named says mpich "rank 0 of job" PMI_SIZE=2 MPI_LOCALNRANKS=2 PMI_JOBID=waits
check the_variables_of_open_mpi_are_named says open_mpi "rank 0 of job" OMPI_COMM_WORLD_SIZE=2
check a_fence_of_pmix_that_does_not_end_is_said says pmix "PMIx_Fence has not ended: a rank may be missing" OMPI_COMM_WORLD_SIZE=2
check a_program_in_an_interactive_step_is_alone grep -q "rank 0 of 1" "$folder/interactive"
check a_rank_that_cannot_be_is_refused_with_the_variable_of_the_size \
    grep -q "SLURM_PROCID is \"3\": a number from 0 to 1 is needed, by SLURM_STEP_NUM_TASKS=2" "$folder/contradiction"
finish
