# The static command alone, some 16 MB: `make dist && docker build -t hanare .`
# A node: docker run --network host hanare node --memory 4GiB --key /key ...
# Docker's usual seccomp profile forbids userfaultfd: mapped regions need a profile that allows it; put and get do not.
FROM scratch
COPY dist/hanare /hanare
# `hanare model`, `hanare report` and `hanare what-if`: leave it out where nobody asks for them.
COPY dist/hanare-models /hanare-models
ENV XDG_RUNTIME_DIR=/run
ENTRYPOINT ["/hanare"]
CMD ["--help"]
