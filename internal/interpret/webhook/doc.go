// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook reads ResourceInterpreterWebhookConfigurations: what is wrong with
// them.
package webhook
