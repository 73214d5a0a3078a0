/* Queues of a job: each rank reads one, and writes to those of others. */
#ifndef STREAMS_PORTS_H
#define STREAMS_PORTS_H

#include "../kit/job.h"

typedef struct ports {
    hanare_queue *own;
    hanare_queue_reader *in;
    hanare_queue_writer **out; /* to each rank; NULL where none was opened */
    char name[128];
} ports;

static inline void ports_name(const job *j, int rank, char *name, size_t name_len)
{
    const char *number = getenv("HANARE_JOB");
    snprintf(name, name_len, "%s-queue%d-%s", j->program, rank, number != NULL && *number ? number : "alone");
}

/* Makes this rank's queue on its own host, and becomes its reader. Called by all ranks at once. */
static inline ports ports_begin(job *j, const hanare_queue_options *options)
{
    ports p;
    memset(&p, 0, sizeof p);
    ports_name(j, j->rank, p.name, sizeof p.name);
    p.out = (hanare_queue_writer **)calloc((size_t)j->ranks, sizeof *p.out);
    if (p.out == NULL)
        exit(1);
    job_must(hanare_queue_create(j->pool, p.name, options, &p.own));
    job_must(hanare_queue_reader_open(p.own, &p.in));
    job_must(hanare_barrier(j->pool));
    return p;
}

/* The writer to a rank's queue. */
static inline hanare_queue_writer *ports_to(job *j, ports *p, int rank)
{
    if (p->out[rank] == NULL) {
        char name[128];
        hanare_queue *queue;
        ports_name(j, rank, name, sizeof name);
        job_must(hanare_queue_open(j->pool, name, 0, 0, &queue));
        job_must(hanare_queue_writer_open(queue, &p->out[rank]));
        job_must(hanare_queue_close(queue));
    }
    return p->out[rank];
}

/* Leaves all queues when all ranks are done with them. */
static inline void ports_end(job *j, ports *p)
{
    for (int rank = 0; rank < j->ranks; rank++)
        if (p->out[rank] != NULL)
            job_must(hanare_queue_writer_close(p->out[rank]));
    free(p->out);
    job_must(hanare_barrier(j->pool));
    job_must(hanare_queue_reader_close(p->in));
    job_must(hanare_queue_close(p->own));
    job_must(hanare_remove(j->pool, p->name));
}

#endif
