#!/bin/bash
git apply solution.patch
