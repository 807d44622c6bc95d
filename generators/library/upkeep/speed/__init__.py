"""Speed: ``slowdowns`` makes a function do more work for the same result, ``workloads`` counts its operations."""
