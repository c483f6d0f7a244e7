// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook interprets objects by webhooks that users run: those of
// ResourceInterpreterWebhookConfigurations.
//
// It decides which webhook is asked for what, writes the questions, and reads the
// answers, which it does not trust: one that is about another question, lacks what
// was asked for, or makes another object of the one in question is an error that
// names the webhook, the question and what to do.
//
// It does not know how a webhook is reached; package callout does.
package webhook
