"""OneSearch: shops and their logs, and a model that answers queries with semantic IDs.

A shop:
    shop/            its layout: items, log, users, counters, queries and test pairs
    read/            shops from data that others released or exported
    grammar/         the words and products of the simulated shop
    simulate/        a simulated shop with a log, drawn from a seed

Queries and items in one space:
    align/           which queries and items a log pairs; a projection trained on them; the same for a shop
    keywords/        keywords of a catalogue, and vectors that contain them
    prepare          embed, align, fit and encode in one call

A model:
    training/        plan, corpus and context, tokens, the examples of three stages, the loop
    templates/       what the model reads and writes, as files that can be edited
    bart/            the network, its beams and, in bart/triton/, its kernels
    model/           the trained model, its folder, and how its SIDs become a list of items

Results:
    evaluate/        HitRate and MRR of the model, BM25, nearest neighbours and counting on the same pairs
"""
