// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget limits what the expressions that users write into one work may
// cost each time that the work is evaluated: all of its JSONPaths, jq
// expressions and CEL expressions, for all of its objects, together. A limit of
// each expression is not enough where a work may have thousands of them.
//
// It limits nothing by itself: who evaluates an expression takes from the budget
// what the evaluation costs, and stops when there is nothing left. The limits of
// a single expression, and of one object, are those of who evaluates it.
package budget
